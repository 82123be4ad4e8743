"""Which folders outside of the workspace a shell text asks for, as a table."""

from __future__ import annotations

import pytest

from workers.tools.bash import Bash


def folders(command: str, **arguments: str) -> list[str]:
    targets = Bash().targets({"command": command, **arguments})
    asked = [target.permission for target in targets]
    assert asked == sorted(asked, reverse=True)  # external_directory is asked for before bash
    return [target.pattern for target in targets if target.permission == "external_directory"]


@pytest.mark.parametrize(
    ("command", "outside"),
    [
        ("cat src/a.py ./b ../workspace/c", []),
        ("cat /etc/passwd", ["/etc/*"]),
        ("cat '/etc/passwd' \"/opt/x y/z\" /srv/a\\ b/c", ["/etc/*", "/opt/x y/*", "/srv/a b/*"]),
        ("cat /etc/passwd /etc/group", ["/etc/*"]),
        ("cat ../x", ["/x/*"]),
        ("cat src/../../etc/x", ["/etc/*"]),
        ("cat ~/x", ["/home/agent/*"]),
        ("cat ~other/x", ["/home/other/*"]),
        ("cat /etc/*.conf", ["/etc/*"]),
        ("cat s*/../../etc/x", ["/etc/*"]),
        ("cat {/etc/passwd,b}", ["/etc/*"]),
        ("cat $X/../../etc `ls /etc`", []),
        ("rm -rf /", ["/*"]),
        ("rm -rf /*", ["/*"]),
        ("rm -rf /opt", ["/opt/*"]),
        ("rm -rf -- /opt/x/", ["/opt/x/*"]),
        ("cp a /tmp", ["/tmp/*"]),
        ("cp --target-directory=/opt/x/ a", ["/opt/x/*"]),
        ("cp -t/opt/x/ a", ["/opt/x/*"]),
        ("mv a /opt/x/b", ["/opt/x/*"]),
        ("mkdir -p /opt/x/y", ["/opt/x/*"]),
        ("touch /opt/x/y && chmod +x /srv/x/y && chown a:b /var/x/y", ["/opt/x/*", "/srv/x/*", "/var/x/*"]),
        ("cd", ["/home/agent/*"]),
        ("cd ..", ["/*"]),
        ("cd /opt/x && ls", ["/opt/x/*"]),
        ("pushd /opt/x", ["/opt/x/*"]),
        ("cd src", []),
        ("sudo rm /opt/x/y", ["/opt/x/*"]),
        ("/bin/rm /opt/x/y", ["/opt/x/*"]),
        ("sh -c 'cat /etc/passwd > /opt/x/y'", ["/etc/*", "/opt/x/*"]),
        ("a $(cat /etc/passwd)", ["/etc/*"]),
        ("a > /etc/x", ["/etc/*"]),
        ("a >> '/etc/x' 2> ../y", ["/etc/*", "/y/*"]),
        ("a < /etc/x", ["/etc/*"]),
        ("a &> /etc/x", ["/etc/*"]),
        ("for x in a; do b; done > /etc/x", ["/etc/*"]),
        ("cat <<E > /etc/x\ny\nE", ["/etc/*"]),
        ("a > $X", []),
        ("a > out.txt 2>&1 3>&-", []),
        ("a > /dev/null 2>/dev/stderr < /dev/fd/3", []),
        ("a > /dev/tcp/example.org/80", ["/dev/tcp/example.org/*"]),
        ("a > /dev/null/../../etc/x", ["/etc/*"]),
        ("ls /etc", []),
    ],
)
def test_paths_outside_of_the_workspace_are_asked_for(command: str, outside: list[str]):
    assert folders(command) == outside


def test_relative_paths_start_in_the_folder_that_the_command_runs_in():
    assert folders("cat ../a", workdir="src") == []
    assert folders("cat ../../a > ../../b/c", workdir="src") == ["/a/*", "/b/*"]
    assert folders("cat b > c", workdir="/opt/x") == ["/opt/x/*"]


def test_a_folder_outside_is_asked_for_where_the_command_is_not_understood_too():
    targets = Bash().targets({"command": "eval x", "workdir": "/opt"})

    assert [(target.permission, target.pattern) for target in targets] == [
        ("external_directory", "/opt/*"),
        ("bash_unparsed", "eval x"),
    ]


@pytest.mark.parametrize(
    ("command", "judged"),
    [
        ("cd src && rm x", ["rm x"]),
        ("pushd src; ls; popd", ["ls"]),
        ("cd src", ["cd src"]),
        ("cd $(rm x)", ["rm x"]),
        ("cd src > x", ["cd src > x"]),
        ("a=1; [ -f x ]", ["a=1; [ -f x ]"]),
        ("A=1; [ -f x ]", ["A=1"]),
    ],
)
def test_changing_the_directory_is_not_judged_unless_there_is_nothing_else(command: str, judged: list[str]):
    targets = Bash().targets({"command": command})

    assert [target.pattern for target in targets if target.permission == "bash"] == judged
