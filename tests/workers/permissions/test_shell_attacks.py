"""Texts that try to run a program which nobody granted, to set what programs read, or to walk around a deny.

Those of `LIVE` are given to real shells, too, and at least one of them runs `evil` there: what is refused is no
phantom. `evil` is a script of the test that leaves a mark, and nothing else happens.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.acp.tools import RunCommand
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, parse_rules
from workers.tools.bash import Bash

SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]
RUN_TIMEOUT_S = 60
# Not on every machine.
MISSING = [
    name
    for name in ("awk", "make", "perl", "python", "split", "tar", "cc", "zip", "cmake", "setarch", "diff3")
    if not shutil.which(name)
]
GRANTED = (
    *(
        "git",
        "ls",
        "echo",
        "cat",
        "read",
        "printf",
        "set",
        "test",
        "true",
        ":",
        "wc",
        "sort",
        "sed",
        "awk",
        "tar",
        "env",
    ),
    *(
        "xargs",
        "find",
        "sh",
        "bash",
        "command",
        "exec",
        "mapfile",
        "getopts",
        "shift",
        "sleep",
        "time",
        "builtin",
        "nice",
    ),
    *(
        "timeout",
        "python",
        "perl",
        "grep",
        "split",
        "tee",
        "make",
        "local",
        "wait",
        "seq",
        "nproc",
        "date",
        "chmod",
        "cp",
        "cc",
        "zip",
        "cmake",
        "gcc",
        "linux64",
        "setarch",
        "strace",
        "m4",
        "sqlite3",
        "diff3",
        "ruby",
        "psql",
        "mysql",
        "php",
        "deno",
        "npm publish",
        "npm rebuild",
        "kubectl",
        "cargo",
        "pip",
        "gh",
        "bsdtar",
        "ssh-keygen",
        "dpkg",
        "rename",
        "sdiff",
        "go",
        "chroot",
        "fakeroot",
        "clang-15",
        "clang",
        "gpg",
        "ctest",
        "meson",
        "bazel",
        "x86_64-linux-gnu-gcc-12",
        "linux32",
    ),
)
# With a network, so that a text that is not understood is asked for, and nobody answers.
NARROW = Guard(
    (*(f"bash:{name} *" for name in GRANTED), "bash:npm test", "bash:python -m pytest*", "network:example.org"),
    DEFAULTS,
)

LIVE = [
    "evil", "ls; evil", "ls && evil", "true | evil", "true & evil", "(evil)", "{ evil; }", "! evil", "ls $(evil)",
    "ls `evil`", 'echo "$(evil)"', 'echo "`evil`"', "x=$(evil)", "cat <<E\n$(evil)\nE", "if evil; then ls; fi",
    "for x in $(evil); do ls; done", "while evil; do break; done", "case $(evil) in *) ls;; esac", "f() { evil; }; f",
    "ls >/dev/null; evil", "ls \\\n; evil", "ls # '\nevil", "./bin/evil", '"$PWD/bin/evil"', "$(echo evil)",
    "e=evil; $e", "ev''il", "'evil'", "\\evil", "ev\\il", "ev?l; bin/ev?l", "eval evil", "eval 'ls; evil'",
    "git log; eval 'evil'", "trap evil EXIT", "trap 'evil' 0; ls", ". ./lib.sh", "echo evil | sh", "sh <<E\nevil\nE",
    "sh <<< evil", "bash <(echo evil)", "sh -c evil", "bash -c 'ls; evil'", 'sh -c "$(echo evil)"',
    "echo evil > f; . ./f", "alias ls=evil\nls", "ls;\tevil", "exec evil", "command evil", "builtin command evil",
    "env evil", "env -i PATH=$PATH evil", "nice evil", "timeout 5 evil", "nohup evil", "time evil",
    "xargs evil < /dev/null", "echo x | xargs -I% evil %", "find bin -name evil -exec {} \\;",
    "find . -maxdepth 0 -exec evil {} +", "echo evil | xargs env", "true && (ls; (evil))", "ls ${x:-$(evil)}",
    "ls ${x:-`evil`}", "ls $((1 + $(evil; echo 1)))", "echo {a,$(evil)}", "ls <(evil)", "x='a[$(evil)]'; echo $((x))",
    "x='a[$(evil)]'; ((x++))", "x='a[$(evil)]'; [[ $x -gt 1 ]]", "y='a[$(evil)]'; x=y; echo $((x))",
    "read x <<'E'\na[$(evil)]\nE\necho $((x))", "printf -v x %s 'a[$(evil)]'; echo $((x))",
    "x=$(cat code); echo $((x))", "for x in 'a[$(evil)]'; do echo $((x)); done",
    "a=(1 2); i='a[$(evil)]'; echo ${a[$i]}", "x='a[$(evil)]'; a[x]=1", "x='a[$(evil)]'; s=abc; echo ${s:x:1}",
    "test -v 'a[$(evil)]'", "read 'a[$(evil)]' <<< x", "printf -v 'a[$(evil)]' x",
    "x='a[$(evil)]'; for ((i=x; i<1; i++)); do ls; done", "declare -i x='a[$(evil)]'", 'x=\'$(evil)\'; echo "${x@P}"',
    "x='a[$(evil)]'; echo ${!x}", "declare -n x='a[$(evil)]'; echo $x", "let 'x=a[$(evil)]'",
    "mapfile -C evil -c 1 x <<< y", "set -- 'a[$(evil)]'; echo $(($1))", "x='a[$(evil)]' bash -c 'echo $((x))'",
    "export x='a[$(evil)]'; bash -c '((x))'", "cat <<E\n$((a[$(evil)]))\nE", "x='a[$(evil)]'; [[ 1 -lt x ]]",
    "declare -a a; a=([$(evil)]=1)", "echo $[a[$(evil)]]", "x=1; x+='+a[$(evil)]'; echo $((x))", "[[ a || evil ]]",
    "! [[ a && evil ]]", "[[ ! -f b || ! evil ]]", "((evil))", "(( 1 || evil ))",
    "((evil += 1))", "((evil / etc))", "sh -c '((evil / 2, 1))'", "c=evil; [[ a || $c ]]",
    "[[ x =~ a|evil ]]", "(( 0; evil ))", "PATH=./bin2; ls", "PATH=./bin2 ls", "export PATH=./bin2; ls",
    "export PATH=./bin2:$PATH\nls", "declare -x PATH=./bin2; ls", "for PATH in ./bin2; do ls; done",
    "read PATH <<< ./bin2; ls", "read -r a PATH <<< 'x ./bin2'; ls", "printf -v PATH ./bin2; ls",
    "unset PATH; PATH=./bin2; ls", ": ${PATH2:=x} ${PATH:=y}; unset PATH; : ${PATH:=./bin2}; ls",
    "command export PATH=./bin2; ls", "readonly PATH=./bin2; ls", "f() { local PATH=./bin2; ls; }; f",
    "env PATH=./bin2 ls", "typeset PATH=./bin2; ls", "x=1 PATH=./bin2 ls", "builtin export PATH=./bin2; ls",
    "exec env PATH=./bin2 ls", "BASH_ENV=./lib.sh bash -c ls", "export ENV=./lib.sh; sh -i -c ls < /dev/null",
    "env 'BASH_FUNC_ls%%=() { evil; }' bash -c ls", "PS4='$(evil)'; set -x; ls",
    "PROMPT_COMMAND=evil bash -i < /dev/null", "env -S 'evil'", "read 'PATH' <<< ./bin2; ls",
    "git -c alias.x='!evil' x", "git -c core.fsmonitor=evil -C repo status",
    "git --config-env=alias.x=E x; git -c alias.x=!evil x", "export GIT_EXTERNAL_DIFF=evil; git -C repo diff",
    "GIT_EXTERNAL_DIFF=evil git -C repo diff", "env GIT_EXTERNAL_DIFF=evil git -C repo diff",
    "git -C repo config alias.x '!evil'; git -C repo x", "git -C repo config core.fsmonitor evil; git -C repo status",
    "git -C repo commit -qam x; git -C repo rebase --exec evil --root",
    "git -C repo submodule foreach evil; git -C repo grep -Oevil one",
    "git -C repo grep --open-files-in-pager=evil one", "git -C repo difftool -y -x evil",
    "git -C repo difftool -y --extcmd=evil", "git clone -u evil repo c2", "git ls-remote --upload-pack=evil ./repo",
    "git ls-remote --upload-p=evil ./repo",
    "git fetch 'ext::evil x'; git -c protocol.ext.allow=always ls-remote 'ext::evil x'",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!evil' git x",
    "GIT_SSH_COMMAND=evil git ls-remote ssh://localhost/x", "git -C repo -c diff.external=evil diff",
    "git  -c  diff.external=evil  -C repo diff", 'python -c \'import os; os.system("evil")\'',
    'python -Bc \'import os; os.system("evil")\'', 'echo \'import os; os.system("evil")\' | python',
    "python - <<'E'\nimport os; os.system('evil')\nE", 'c=\'import os; os.system("evil")\'; python -c "$c"',
    'python -W ignore -c \'import os; os.system("evil")\'', 'perl -e \'system("evil")\'',
    'perl -ne \'system("evil")\' code', 'perl -Mstrict -e \'system("evil")\'', 'awk \'BEGIN { system("evil") }\'',
    'awk \'BEGIN { "evil" | getline }\'', 'awk \'BEGIN { print 1 | "evil" }\'',
    'awk -v x=1 \'BEGIN { system("evil") }\'', "sed '1e evil' code", "sed -n 's/.*/evil/e' code",
    "sed -e p -e '1e evil' code", "sed --expression='1e evil' code", "sed '/a/{p;e evil\n}' code",
    "echo 1 | sed '1!d;e evil'", "tar -cf x.tar code --checkpoint=1 --checkpoint-action=exec=evil",
    "tar -cf x.tar -I evil code", "tar cIf evil x.tar code", "tar -cf x.tar code; tar -xf x.tar --to-command=evil",
    "tar -cf x.tar code --use-compress-prog=evil", "split --filter=evil code",
    'echo "--checkpoint-action=exec=evil" > a; tar -cf x.tar code --checkpoint=1 $(cat a)',
    "sort -S 1k --compress-program=evil -T . big", "make -f - <<'E'\nall:\n\tevil\nE", "make --eval='all: ; evil'",
    "make -f evil.mk", "make SHELL=evil -f evil.mk all",
    'echo -c \'import os\' | xargs python -c \'import os; os.system("evil")\'',
    'echo "1e evil" | xargs -I% sed % code', "find code -exec sed '1e evil' {} \\;",
    "PYTHONSTARTUP=./e.py python -i < /dev/null", "PERL5OPT='-I. -Me' perl code",
    "git -C repo update-index --index-info < conflict; git -C repo merge-index evil -a",
    "tar cvvvvvvIf evil x.tar code", "tar cMLFf 10 evil x.tar big", "make CC=evil one.o",
    "make AR=evil -B 'x.a(one.o)'", "make CFLAGS='-x;evil' one.o", "make 'V=$(shell evil)' one.o CC='$(V)'",
    "make 'TESTS=;evil' -f evil2.mk", "make all -f evil.mk", "make one.o all --eval='all: ; evil'",
    "echo 'BEGIN { system(\"evil\") }' | awk -f -", "echo 'BEGIN { system(\"evil\") }' | awk -f /dev/stdin",
    "echo 'BEGIN { system(\"evil\") }' | awk -f empty.awk -f/dev/stdin",
    "echo 'system(\"evil\")' | perl /dev/stdin", "echo 'system(\"evil\")' | perl /proc/self/fd/0",
    "echo 'system(\"evil\")' | perl ./../../../../../../../dev/stdin",
    "echo 'import os; os.system(\"evil\")' | python /dev/fd/0",
    "echo 'import os; os.system(\"evil\")' | python -m code",
    "python -m timeit -n 1 'import os; os.system(\"evil\")'", "split --f=evil code",
    "zip -qr x.zip code -T -TT evil", "cc -wrapper evil -c one.c", "cc -Bbin2/ one.c",
    "echo '-wrapper evil' > o; cc @o one.c",
    "cmake -DCMAKE_C_COMPILER=evil -S . -B b",
    "cmake -E env evil", "echo $PWD/bin/evil | setarch x86_64 -R", "diff3 --diff-program=evil code code code",
]  # fmt: skip

JUDGED = [
    "PATH=(./bin2); ls", "PATH[0]=./bin2; ls", "x=1 PATH[0]=./bin2; ls", "set -k; ls PATH=./bin2",
    "bash -k -c 'ls PATH=./bin2'", "mapfile -t PATH < f; ls", "read -aPATH < f; ls", "read -ra PATH < f; ls",
    "unset 'a[$(evil)]'", "echo evil | xargs -I% % x", "git bisect run evil", "git filter-branch --tree-filter evil",
    "git difftool -y --extcm=evil", "git submodule --quiet foreach evil", "git rebase -x evil",
    "LD_PRELOAD=./x.so ls", "export LD_LIBRARY_PATH=.; ls", "NODE_OPTIONS='--require ./x.js' npm test",
    "export NODE_OPTIONS=--require=./x.js; npm test", "npm_config_script_shell=./x npm test",
    "export npm_config_node_options=x; npm test", "GIT_PAGER=x git log", "export PAGER=x; git log",
    "EDITOR=x git commit", "GIT_EDITOR=x git commit", "export GIT_SSH=x; git fetch", "https_proxy=http://x git fetch",
    "export all_proxy=x; git fetch", "no_proxy=x git fetch", "PYTHONPATH=. python -m pytest",
    "PYTHONHOME=. python -m pytest", "PYTEST_ADDOPTS='-p x' python -m pytest", "IFS=/; ls", "CDPATH=/; ls",
    "HOME=.; git status", "export HOME=.; git status", "unset HOME; git status", "unset -v PATH; ls",
    "unset GIT_DIR; git log", "for GIT_DIR in x; do git log; done", "read GIT_DIR < f; git log",
    "mapfile GIT_DIR < f; git log", "getopts a GIT_DIR; git log", "printf -v GIT_DIR x; git log",
    "printf -vGIT_DIR x; git log", ": ${GIT_DIR:=x}; git log", "((PATH=1)); ls", "echo $((PATH=1)); ls",
    "for ((PATH=1; PATH<2; PATH++)); do ls; done", "echo ${a[PATH=1]}", "exec {PATH}> f; ls", "env -u PATH ls",
    "env --unset=HOME git log", "env A=1 B=2 git log", "sudo PATH=. ls", "declare -n x=PATH; x=.; ls",
    "local -n x=PATH", "coproc PATH { ls; }", "select PATH in x; do ls; done", "wait -p PATH; ls", "read -p x PATH",
    'read "$v"; ls', 'export "$v"; ls', 'printf -v "$v" x; ls', "readonly GIT_DIR=x; git log",
    "typeset -x GIT_DIR=x; git log", "export -n PATH; ls", "PATH+=:.; ls", "export PATH+=:.; ls", "aliases[ls]=x; ls",
    "path=(.); ls", "python x.py; python -c 1", "python $X", 'python "$X" a', "python *.py", "python -",
    "python -i x.py", "python -X dev -c 1", "python3.12 -c 1", "npm test --script-shell=x",
    "npm --script-shell x test", "npm test -- x", "npm exec x", "npm install", "npm $x", "npx x", "node -e 1",
    "node x.js", "ruby -e 1", "psql -c '\\! ls'", "sqlite3 db '.shell ls'", "ssh host ls", "git $x", 'git "$x" y',
    "git -C $d push", "git {push,x}", "git pus?", "echo push | xargs git", "xargs git < f",
    "echo push | xargs -I% git %", "git --newoption x log", "git config core.pager x",
    "git config --global alias.x '!y'", "git config -e", "git config --edit", "git init --template=x",
    "git clone --template=x y", "git clone -c a.b=c y", "git clone --config a.b=c y", "git push --receive-pack=x o",
    "git push --exec=x o", "git archive --remote=x --exec=y HEAD", "git svn x", "git p4 x", "git instaweb --httpd=x",
    "git daemon", "git send-email x", "git hook run x", "git mergetool -t x", "make -f x", "make --file=x",
    "make -I x", "make MAKEFLAGS=--eval=x", "make -E x", "sed w x; evil", "sed 's/a/b/w /x' f", 'sed -e "$x" f',
    'sed "$x" f', 'awk "$x" f', 'awk \'{print > "/x"}\' f', "awk -l x 'BEGIN{}'", 'awk \'@load "x"\'', 'tar xf "$x"',
    "tar xf *", "tar xf x --to-c=y", "tar xf x --rsh-command=y", "sort --compress-prog=x f",
    "perl x.pl -e; perl -le 1", "perl -i -pe 1 f", "perl < f", "python < f", "cat f | python", "bash", "bash -i",
    "sh f -c; sh -s < f", "bash --rcfile x", "bash --init-file x", "ls\x00evil", "ls\revil", "ls\u2028evil",
    "ls \xa0evil", "ls\x0bevil", "cat <<E\nE\\\n\nevil\nE", "cat <<\\E\nevil\nE", "ls !(a)",
    "find . -exec sh -c '{}' \\;", "find . -okdir evil \\;",
    "ruby -v -e 1", "ruby -ve 1", "psql -f x.sql -c '\\! ls'", "psql -f -", "psql -f/dev/stdin", 'psql -f "$x"',
    "mysql -f -e 'system ls'", "php -f /dev/stdin", "php -nf/dev/stdin", "deno run -", "python -mtimeit x",
    "python -m pdb x.py", 'python -m "$x"', "awk -f a.awk -f - b", "echo 'syscmd(x)' | m4", "rename 's/a/b/e' f",
    "npm publish --script-shell=x", "npm rebuild --shell=x", "kubectl get pods --kubeconfig=x",
    'x=--kubeconfig=y; kubectl get "$x"', "cargo fetch --config x", "xargs cargo test < f",
    "pip config --editor x edit",
    "make -j4 all MAKE=x", "make CC=./clang all", "make CFLAGS=-B. all", "make LDFLAGS=-fplugin=x all",
    "make PREFIX='/usr;x' install", "make CROSS_COMPILE=x- all", "make SHELL=x", "make 'x:=$(shell y)'",
    "make CFLAGS=-wrapper all", 'x=CC=y; make all "$x"', "cmake --build b -- CC=x", "cmake --build b -- -f x.mk",
    "cmake -D CMAKE_C_COMPILER_LAUNCHER=x -S . -B b", "cmake -P /dev/stdin", "cmake -E __run_co_compile --launcher=x",
    "go build -ldflags '-extld=x' .", "clang -fpass-plugin=x y.c", "clang-15 -fplugin=x y.c",
    "x86_64-linux-gnu-gcc-12 -B. x.c", "gh alias set x '!y'", "git x", "git evil", "git submodule--helper foreach x",
    "git for-each-repo --config=a.b -c alias.x=!y x", "git credential-store get", "git upload-pack x",
    "git remote-ext x y", "tar cIf x y", "bsdtar cvIf x y", "tar cvvvvF x y", "sort --co=x f", "ssh-keygen -D x",
    "dpkg --pre-invoke=x -i y", "sdiff --diff-p=x a b", "gpg --exec-path=x f", "ctest --test-command x",
    "meson test --wrapper=x", "bazel run --run_under=x y", "strace -o '|x' ls", "strace -o!x ls", "chroot /",
    "fakeroot", "linux64", "linux32 < f",
]  # fmt: skip


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `evil`, files to be misused by it, and a repository with a change."""
    root = tmp_path_factory.mktemp("attacks").resolve()
    for folder in ("bin", "bin2", "home", "repo"):
        (root / folder).mkdir()
    evil = f"#!/bin/sh\n: > {root}/ran\n"
    for name, text in {
        "bin/evil": evil,
        "bin2/ls": evil,
        "bin2/as": evil,
        "lib.sh": "evil\n",
        "code": "a[$(evil)]\n",
    }.items():
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    for name, text in {
        "one.c": "int x;\n",
        "empty.awk": "",
        "CMakeLists.txt": "project(x C)\n",
        "evil2.mk": "all: ; true $(TESTS)\n",
    }.items():
        (root / name).write_text(text)
    (root / "e.py").write_text("import os\nos.system('evil')\n")
    (root / "e.pm").write_text("system('evil'); 1;\n")
    (root / "evil.mk").write_text("all:\n\tevil\n")
    (root / "big").write_text("".join(f"{line * 7919 % 9973:>60}\n" for line in range(4000)))
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "x"]):
        (root / "repo" / "one").write_text("one\n")
        subprocess.run(["git", *command], cwd=root / "repo", env=environment(root), check=True)
    (root / "repo" / "one").write_text("one\ntwo\n")
    hashed = subprocess.run(
        ["git", "rev-parse", "HEAD:one"], cwd=root / "repo", capture_output=True, text=True, check=True
    )
    (root / "conflict").write_text("".join(f"100644 {hashed.stdout.strip()} {part}\ttwo\n" for part in (1, 2, 3)))
    return root


def environment(root: Path) -> dict[str, str]:
    who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    home = {"HOME": str(root / "home"), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    return {"PATH": f"{root}/bin:{os.environ['PATH']}", **home, **who}


def runs_evil(shell: str, text: str, root: Path) -> bool:
    """Does it run `evil`? In a copy of the stage, so that one attack does not serve the next."""
    mark, repo = root / "ran", root / "repo"
    mark.unlink(missing_ok=True)
    if uses_it := "repo" in text:
        shutil.copytree(repo, root / "kept", symlinks=True)
    try:
        subprocess.run(
            [shutil.which(shell) or shell, "-c", text],
            env=environment(root),
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_TIMEOUT_S,
        )
        return mark.exists()
    finally:
        if uses_it:
            shutil.rmtree(repo)
            (root / "kept").rename(repo)


@pytest.mark.parametrize("text", [*LIVE, *JUDGED])
def test_no_attack_is_within_a_scope_for_other_programs(text: str):
    assert NARROW.check(Bash().targets({"command": text})) is not None


@pytest.mark.parametrize("text", LIVE)
def test_real_shells_run_what_the_attacks_are_about(text: str, stage: Path):
    if missing := [name for name in MISSING if re.search(rf"\b{name}\b", text)]:
        pytest.skip(f"no {missing[0]} here")
    assert any(runs_evil(shell, text, stage) for shell in SHELLS)


SETS = st.sampled_from(
    [
        *("{n}={v}", "export {n}={v}", "read {n} <<E\n{v}\nE\n", "read -r x {n} <<< '1 {v}'", "printf -v {n} %s {v}"),
        *(": ${{{n}:={v}}}", "declare -x {n}={v}", "unset {n}; {n}={v}", "mapfile -t {n} <<< {v}", "readonly {n}={v}"),
        *("{n}[0]={v}", "{n}=({v})", "{n}+={v}", "command export {n}={v}", "(({n}={v}))", "set -k", "set -a; {n}={v}"),
    ]
)
AROUND = st.sampled_from(
    [
        *(
            "for {n} in {v}; do {u}; done",
            "f() {{ local {n}={v}; {u}; }}; f",
            "env {n}={v} {u}",
            "{n}={v} {u}",
            "({u})",
        ),
        *(
            "if true; then {u}; fi",
            "x=$({u})",
            "bash -c '{u}'",
            "x=1 {u}",
            "{u} {n}={v}",
            "command {u}",
            "[[ 1 ]] && {u}",
        ),
    ]
)
NAMES = st.sampled_from(["PATH", "BASH_ENV", "x", "x", "y", "i", "a", "b", "out", "path"])
VALUES = st.sampled_from(
    ["./bin2", "./lib.sh", "evil", "1", "$x", "$y", '"a[\\$(evil)]"', "a[evil]", "$(cat code)", "$((x+1))"]
)
USES = st.sampled_from(
    [
        *("ls", "bash -c ls", "sh -c ls", "echo $((x))", "echo ${a[y]}", "((i++))", "[[ $x -gt 0 ]]", "echo ${x:y:1}"),
        *("a[i]=1", "test -n $x", "git $x", "$x", "echo ${!x}", "git -c diff.external=$x status", "python -c $x"),
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = draw(st.lists(SETS | AROUND | USES, min_size=1, max_size=4))
    said = [
        part.format(n=draw(NAMES), v=draw(VALUES), u=draw(USES)) if re.search(r"\{[nvu]\}", part) else part
        for part in parts
    ]
    return draw(st.sampled_from(["; ", "\n", " && "])).join(said)


@pytest.mark.parametrize("shell", SHELLS)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@given(text=texts())
def test_no_text_within_the_scope_runs_anything_else(shell: str, stage: Path, text: str):
    if NARROW.check(Bash().targets({"command": text})) is None:
        assert not runs_evil(shell, text, stage), text


NO_PUSH = parse_rules({"bash": {"*": "allow", "git push *": "deny", "rm *": "deny"}})


# For the last of them it cannot be told which command that is.
PUSHES = [
    "git push", "git push origin main", "git  push", "git\tpush", "git 'push' origin", 'git "push"', "git pu'sh' x",
    "git \\\npush", "git p\\ush", "git -C . push", "git -C . -c a.b=c push", "git --no-pager push", "git -P push",
    "git --git-dir=x --work-tree y push", "git --exec-path=/x push", "git -c a.b=c -C x --no-pager push --force",
    "git --config-env a=b push", "cd x && git -C y push", "sudo git -C . push", "env git -C . push",
    "x=1 git -C . push", "A=1 git -C . push", "/usr/bin/git -C . push", "timeout 5 git -C . push",
    "sh -c 'git -C . push'", "ls; git -C . push", "git -C . push > f", ">f git -C . push", "git >f push",
    "git -C >f . push", "git 2>&1 push", "if a; then git -C . push; fi", "for i in 1; do git -C . push; done",
    "x=$(git -C . push)", "[[ a ]] && git -C . push", "(( x )) || git push", "xargs git push",
    "find . -exec git -C . push \\;", "git -c alias.p=push p; git push", "rm  x", "rm -r x", "'rm' x", "git $x",
    "git $(echo push)", "git {push,x}", "git pus?", "echo push | xargs git", "git -C $d push", "git --wat push",
    "git -C $d status", "echo x | xargs -I% git % x", "git p${x}ush", "git -c $x push", "$g push", "eval git push",
    "npm --prefix $d test", "kubectl -n $d get x", "kubectl -n \"$@\" get x",
]  # fmt: skip


@pytest.mark.parametrize("text", PUSHES)
def test_a_deny_holds_however_a_command_is_written(text: str):
    guard = Guard(("*:**", "network:example.org"), (*DEFAULTS, *NO_PUSH))

    assert guard.check(Bash().targets({"command": text})) is not None


# Programs that run another one, as far as they are on this machine.
RUNNING = [
    "prlimit", "prlimit --nofile=1024 -v", "setarch -R", "setarch x86_64 -R", "linux64", "linux32 -R", "setpriv --nnp",
    "chrt -o 0", "choom -n 0 --", "taskset -c 0", "ionice -c 3", "cmake -E env", "cmake -E env A=1", "cmake -E time",
    "cmake -E chdir .", "ssh-agent", "ssh-agent -t 5", "valgrind -q --tool=none", "xvfb-run -a", "numactl --all",
    "catchsegv", "unshare -r", "nsenter", "runuser -u root", "su -c", "script -qc", "watch", "strace -f", "ltrace",
    "perf stat", "flock f", "parallel", "dbus-run-session --", "systemd-run --user", "faketime -f +1", "fakeroot",
    "chroot .", "runcon -t x", "stdbuf -oL", "setsid -w", "busybox nice", "time -p", "pkexec",
    "start-stop-daemon -S -a",
    "env -u X", "nice -n 1", "nohup", "timeout --foreground 9", "/lib64/ld-linux-x86-64.so.2", "bwrap", "firejail",
]  # fmt: skip


@pytest.mark.parametrize("runner", RUNNING)
def test_a_deny_holds_behind_every_program_that_runs_another(runner: str):
    rules = parse_rules({"bash": {"*": "allow", "evil": "deny", "evil *": "deny"}})
    guard = Guard(("*:**", "network:example.org"), (*DEFAULTS, *rules))

    assert guard.check(Bash().targets({"command": f"{runner} evil"})) is not None


@pytest.mark.parametrize(
    ("text", "rules", "is_allowed"),
    [
        ("git -C x log", {"*": "deny", "git log *": "allow"}, True),
        ("git -C x push", {"*": "deny", "git log *": "allow"}, False),
        ("git -C x log", {"*": "allow", "git -C *": "deny"}, False),
        ("git -C x log", {"git -C *": "deny", "git *": "allow"}, True),
        ("git -C x log", {"*": "deny", "git -C *": "allow"}, True),
        ("git -C x push", {"git push *": "deny", "git -C *": "allow"}, False),
        ("git 'log'", {"*": "deny", "git 'log'": "allow"}, True),
        ("python -c x", {"*": "deny", "python *": "allow"}, False),
        ("python -c x", {"*": "deny", "python *": "allow", "python -c x": "allow"}, True),
        ("python -c x", {"*": "deny", "python *": "allow", "(code) python *": "allow"}, True),
        ("python -c x", {"*": "allow", "python -c *": "deny"}, False),
        ("git -c a.b=c log", {"*": "deny", "git log *": "allow"}, False),
        ("PAGER=x git log", {"*": "deny", "git log *": "allow"}, False),
    ],
)
def test_a_rule_is_about_a_command_plain_or_as_it_is_written(text: str, rules: dict[str, str], is_allowed: bool):
    guard = Guard(("*:**",), (*DEFAULTS, *parse_rules({"bash": rules})))

    assert (guard.check(Bash().targets({"command": text})) is None) is is_allowed


CPU_BOUND_S = 4  # half a second is what the worst of them take on a machine that does nothing else


# Pieces that are repeated until a text is long.
SLOW = [
    "a=1 ", "x[1]=1 ", "git -C x ", "sed 's/a/b/;", "awk 'print ", "print >", "$((1+", "((1)) ", "[[ a && ", "${x:-",
    "a|", "export X=1;", "read x;", "{1..9}", "x=$y;y=$x;", "env A=1 ", "xargs ", "sh -c '", "tar -I", "for x in ",
    "'a' ", "\\\n", "$'a'", "a=(1 ", "python -c ", "-e s/a/b/ ", "! ", "[ a = b ] && ", "npm --a ",
    "x=$((y));y=$((x));", "(", "`a`", "<<E\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", SLOW)
def test_a_hostile_text_is_judged_within_a_bounded_time(piece: str):
    for length in (15_000, 100_000):
        for start, end in (("", ""), ("sed '", "'"), ("echo $((", "))"), ("bash -c '", "'"), ("[[ ", " ]]")):
            text = f"{start}{piece * (length // len(piece))}{end}"
            begun = time.process_time()
            NARROW.check(Bash().targets({"command": text}))
            assert time.process_time() - begun < CPU_BOUND_S


@pytest.mark.parametrize(
    "text", ["make X='{}'", "make {}=1", "cmake -D{}", "cmake -DCMAKE_{}=", "go build '{}'", "cc -f{}"]
)
def test_a_hostile_setting_is_judged_within_a_bounded_time(text: str):
    for piece in (
        "-W",
        "-f-",
        " -O",
        "CMAKE_",
        "COMPILER",
        "FLAGS_A",
        "CREATE_",
        "../",
        "-extl",
        "a-",
        "1.",
        "[",
        "A=B",
    ):
        begun = time.process_time()
        NARROW.check(Bash().targets({"command": text.format(piece * (8_000 // len(piece)) + "!")}))
        assert time.process_time() - begun < CPU_BOUND_S


def test_what_a_program_sets_for_its_terminal_is_judged_like_the_line():
    async def start(command: str, cwd: str, env: Mapping[str, str]) -> str:
        raise AssertionError("only judged")

    tool = RunCommand(start)
    assert NARROW.check(tool.targets({"command": "git log", "env": {"name": "x"}})) is None
    assert NARROW.check(tool.targets({"command": "git log", "env": {"GIT_PAGER": "x"}})) is not None
