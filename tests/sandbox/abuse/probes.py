"""Run inside a sandbox: each probe tries one thing in a process of its own, and a line says what became of it."""

import ctypes
import errno
import os
import platform
import resource
import signal
import socket
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
SMALL = ctypes.create_string_buffer(4096)


def call(name, *arguments):
    """What a function of the C library says, as an OSError if it is one."""
    ctypes.set_errno(0)
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def system(x86, arm, *arguments):
    call("syscall", ctypes.c_long(x86 if X86 else arm), *arguments)


def opened(path, flags=os.O_RDONLY):
    def attempt():
        fd = os.open(path, flags)
        if flags == os.O_RDONLY and not os.read(fd, 1):
            raise PermissionError(errno.EPERM, "masked")

    return attempt


def connected(host, port):
    def connect():
        with socket.create_connection((host, port), timeout=2):
            pass

    return connect


def host_socket():
    """An abstract name is no file, so that only a namespace of its own hides it."""
    socket.socket(socket.AF_UNIX).connect(b"\0" + os.environ["CANARY"].encode())


def host_process():
    os.kill(int(os.environ["HOST_PID"]), 0)
    if os.environ["CANARY"] in Path(f"/proc/{os.environ['HOST_PID']}/cmdline").read_text():
        return
    raise ProcessLookupError(errno.ESRCH, "another one of our own")


def setuid_file():
    """A file of one's own may have the bit, and means nobody else by it."""
    os.system("cp /usr/bin/id /tmp/id && chmod 6755 /tmp/id")
    if b"uid=0" in os.popen("/tmp/id").read().encode():
        return
    raise PermissionError(errno.EPERM, "nobody special still")


def setuid_programs():
    """Those of the image gain nothing."""
    for program in ("su root -c id", "mount -t tmpfs none /tmp", "passwd -d root"):
        if os.system(f"{program} </dev/null >/dev/null 2>&1") == 0:
            return
    raise PermissionError(errno.EPERM, "none works")


def visible_secrets():
    """What the kernel tells of this host must not name its folders or its processes' arguments."""
    text = ""
    for place in ("/proc/mounts", "/proc/1/cmdline", "/proc/net/unix", "/proc/keys", "/proc/sysvipc/shm"):
        if os.access(place, os.R_OK):
            text += Path(place).read_text(errors="replace")
    if os.environ["CANARY"] in text:
        return
    raise PermissionError(errno.EPERM, "not there")


PROBES = {
    "mount": lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    "bind mount": lambda: call("mount", b"/", b"/tmp", None, 4096, None),
    "remount the root": lambda: call("mount", None, b"/", None, 32, None),
    "new mount api": lambda: system(430, 430, b"tmpfs", 0),
    "unmount": lambda: call("umount2", b"/workspace", 2),
    "pivot_root": lambda: system(155, 41, b"/tmp", b"/tmp"),
    "chroot": lambda: os.chroot("/tmp"),
    "user namespace": lambda: call("unshare", 0x10000000),
    "network namespace": lambda: call("unshare", 0x40000000),
    "clone with a namespace": lambda: system(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "setns": lambda: call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), 0),
    "ptrace of the server": lambda: call("ptrace", 16, 1, 0, 0),
    "ptrace of the parent": lambda: call("ptrace", 16, os.getppid(), 0, 0),
    "memory of the server": lambda: system(310, 270, 1, SMALL, 1, SMALL, 1, 0),
    "descriptor of the server": lambda: system(438, 438, 3, 1, 0),
    "server's stream": opened("/proc/1/fd/1", os.O_WRONLY),
    "server's memory": opened("/proc/1/mem"),
    "server's environment": opened("/proc/1/environ"),
    "server's code": opened("/run/muster-toolserver.py", os.O_WRONLY),
    "server's root": lambda: os.listdir("/proc/1/root/"),
    "server's limits": lambda: system(302, 261, 1, 7, SMALL, 0),
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "packet socket": lambda: socket.socket(17, socket.SOCK_RAW, 3),
    **{f"socket of family {family}": (lambda of=(family, kind): socket.socket(*of)) for family, kind in (
        (15, socket.SOCK_RAW),  # AF_KEY
        (21, socket.SOCK_SEQPACKET),  # AF_RDS
        (30, socket.SOCK_SEQPACKET),  # AF_TIPC
        (38, socket.SOCK_SEQPACKET),  # AF_ALG
        (40, socket.SOCK_STREAM),  # AF_VSOCK
    )},
    "pair of sockets of TIPC": lambda: system(53, 199, 30, socket.SOCK_SEQPACKET, 0, SMALL),
    "clone3 with a namespace": lambda: system(435, 435, b"\0\0\0\x10".ljust(64, b"\0"), 64),
    "keyring": lambda: system(248, 217, b"user", b"mine", b"x", 1, -3),
    "keyctl": lambda: system(250, 219, 0, -3, 0),
    "io_uring": lambda: system(425, 425, 8, SMALL),
    "userfaultfd": lambda: system(323, 282, 0),
    "bpf": lambda: system(321, 280, 0, SMALL, 128),
    "perf": lambda: system(298, 241, SMALL, 0, -1, -1, 0),
    "open by handle": lambda: system(304, 265, 3, SMALL, 0),
    "kernel log": lambda: call("klogctl", 3, SMALL, 4096),
    "kernel module": lambda: system(175, 105, SMALL, 1, b""),
    "kexec": lambda: system(246, 104, 0, 0, 0, 0),
    "reboot": lambda: call("reboot", 0),
    "swap": lambda: call("swapoff", b"/workspace"),
    "accounting": lambda: call("acct", b"/tmp/acct"),
    "quota": lambda: system(179, 60, 0, 0, 0, 0),
    "clock": lambda: call("clock_settime", 0, SMALL),
    "time of day": lambda: call("settimeofday", SMALL, None),
    "clock rate": lambda: call("adjtimex", ctypes.create_string_buffer(b"\1" * 256, 4096)),
    "host name": lambda: call("sethostname", b"other", 5),
    "device node": lambda: os.mknod("/tmp/mem", 0o20600, os.makedev(1, 1)),
    "disk node": lambda: os.mknod("/workspace/disk", 0o60600, os.makedev(7, 0)),
    "give a file away": lambda: os.chown(os.open("/tmp/given", os.O_CREAT), 0, 0) or os.chown("/tmp/given", 0, 0),
    "become root": lambda: os.setuid(0),
    "real-time priority": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "raise the limit of files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
    "setuid file": setuid_file,
    "setuid programs": setuid_programs,
    "host's process": host_process,
    "host's abstract socket": host_socket,
    "host's names": visible_secrets,
    "host's port on loopback": connected("127.0.0.1", int(os.environ["HOST_PORT"])),
    "metadata address": connected("169.254.169.254", 80),
    "docker's bridge": connected("172.17.0.1", 80),
    "metadata over IPv6": connected("fd00:ec2::254", 80),
    "name lookup": lambda: socket.getaddrinfo("example.com", 80),
    **{f"read {path}": opened(path) for path in (
        "/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/proc/kmsg", "/dev/loop0",
        "/dev/loop-control", "/dev/vda", "/dev/sda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vhost-vsock",
        "/proc/kpageflags", "/etc/shadow", "/sys/kernel/debug/tracing/trace", "/sys/kernel/security/lsm",
        "/proc/timer_list", "/proc/sched_debug",
    )},
    **{f"write {path}": opened(path, os.O_WRONLY) for path in (
        "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches",
        "/proc/sys/kernel/hostname", "/proc/sys/fs/file-max", "/proc/1/oom_score_adj", "/proc/1/comm",
        "/proc/irq/0/smp_affinity", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/release_agent", "/sys/kernel/uevent_helper",
        "/sys/power/state", "/etc/passwd", "/etc/ld.so.preload", "/usr/bin/python3", "/opt/x", "/run/x", "/dev/x",
    )},
    **{f"connect {path}": (lambda path=path: socket.socket(socket.AF_UNIX).connect(path)) for path in (
        "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/systemd/private",
        "/run/dbus/system_bus_socket",
    )},
}  # fmt: skip

for name, probe in PROBES.items():
    if os.fork() == 0:
        try:
            probe()
            answer = "OPEN"
        except socket.gaierror:
            answer = "no such name"
        except ValueError:  # how Python says that a limit may not be raised
            answer = "EPERM"
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, str(error))
        os.write(1, f"{name}: {answer}\n".encode())
        os._exit(0)
    _, status = os.wait()
    if status:
        os.write(1, f"{name}: ended by {status}\n".encode())
