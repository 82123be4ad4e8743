"""Inside a sandbox: runs one command, and says its output and errors as they come.

    python3 terminal.py NONCE PROGRAM ARGUMENT …

The last that it says is NONCE, the exit code, and a semicolon (128 + n when a signal n ended the
command), whatever the command leaves in the background.
"""

import os
import signal
import subprocess
import sys


def main() -> None:
    nonce, argv = sys.argv[1], sys.argv[2:]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        ended = subprocess.run(argv, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False).returncode
    except OSError as error:
        os.write(1, f"{argv[0]}: {error.strerror}\n".encode())
        ended = 127
    os.write(1, f"{nonce}{ended if ended >= 0 else 128 - ended};".encode())


if __name__ == "__main__":
    main()
