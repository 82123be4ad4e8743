"""What programs make of their own arguments, as a table: options before their command, and code that they are handed.

`arguments` reads it. A row lists options, separated by blanks: `-C=` takes a value, `-c=!` has one that is code or says
what is run, `-m=.` ends the options, `-V?` as the last word only tells something, `@` is for `@file`. What is not in a
row is not understood, and counts as code; in a row that is looked through `anywhere`, it is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`always`: whatever it is given. `from_input`: without an operand its code comes from its input. `anywhere`:
    options count behind operands, too. `commands`: its first operand is a command of its own, and `throughout`: what
    is code before that is so behind it; `harmless`: its commands that are not code, if any other without a row is.
    `clusters`: `-ab` is `-a -b`."""

    options: str = ""
    always: bool = False
    from_input: bool = False
    anywhere: bool = False
    commands: bool = False
    throughout: bool = False
    harmless: str = ""
    clusters: bool = True


def _rows(names: str, row: Row) -> dict[str, Row]:
    return dict.fromkeys(names.split(", "), row)


_TELLS = "-V? --version? -h? --help?"
_NPM = (
    "-s --silent -q --quiet -d --verbose --json --loglevel= --prefix= -C= -w= --workspace= --workspaces --ws -y --yes"
    " -f --force -g --global --registry= --offline --prefer-offline --no-audit --no-fund --legacy-peer-deps --omit="
    " --ignore-scripts --if-present --production --no-save --color --no-color --no-progress --cache= -h -v --version"
    " --help --include= --location= -r --recursive --filter= -F= --dir= --cwd= --no-optional --frozen-lockfile"
    " --script-shell=! --userconfig=! --globalconfig=! --node-options=! --shell=! --git=! --editor=! --viewer=!"
    " --browser=! --onload-script=! --init-module=! --shell-emulator"
)
_DOCKER = (
    "-H= --host= --context= -D --debug -l= --log-level= --tls --tlsverify --tlscacert= --tlscert= --tlskey= -v"
    " --version --help --config=! -c="
)
_KUBECTL = (
    "-n= --namespace= --context= --cluster= --user= --as= --as-group= --as-uid= -s= --server= --token= -v= --v="
    " --request-timeout= --certificate-authority= --client-certificate= --client-key= --insecure-skip-tls-verify"
    " --tls-server-name= --cache-dir= --match-server-version --username= --password= --warnings-as-errors -h --help"
    " --kubeconfig=!"
)
_PIP = (
    "-q --quiet -v --verbose -V --version -h --help --isolated --no-input --no-color --no-cache-dir --debug"
    " --require-virtualenv --disable-pip-version-check --no-python-version-warning --log= --proxy= --retries="
    " --timeout= --exists-action= --trusted-host= --cert= --client-cert= --cache-dir= --use-feature="
    " --use-deprecated= --keyring-provider=! --python=!"
)
_SYSTEMCTL = (
    "--user --system -H= --host= -M= --machine= -q --quiet --no-pager --no-ask-password --no-legend --plain -a --all"
    " -l --full -f --force --now --no-block --no-wall --root= --runtime --global -t= --type= --state= -p= --property="
    " -o= --output= -n= --lines= -s= --signal= --job-mode= --wait -h --help --version --failed -r --recursive"
)
_PYTHON = (
    "--version? -h? --help? -c=! -m=. -W= -X= --check-hash-based-pycs= -B -b -d -E -I -i! -O -P -q -R -s -S"
    " -u -v -x -V?"
)
_NODE = (
    "-e=! --eval=! -p=! --print=! -r=! --require=! --import=! --loader=! --experimental-loader=! -i! --interactive!"
    " -c --check --test --watch -C= --conditions= --input-type= --no-warnings --trace-warnings --enable-source-maps"
    " --max-old-space-size= --expose-gc --experimental-vm-modules -v? --version? -h? --help?"
)
_SQL = "--version? -V? --help? -l? --list?"
# What only works with repositories, their objects and their remotes; any other command is a program or an alias.
_GIT_HARMLESS = (
    "add am annotate apply bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap"
    " check-ref-format checkout checkout-index cherry cherry-pick clean column commit commit-graph commit-tree"
    " count-objects describe diagnose diff diff-files diff-index diff-tree fast-export fast-import fmt-merge-msg"
    " for-each-ref format-patch fsck gc get-tar-commit-id hash-object help index-pack interpret-trailers lfs log"
    " ls-files ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-tree mktag mktree"
    " multi-pack-index mv name-rev notes pack-objects pack-redundant pack-refs patch-id prune prune-packed range-diff"
    " read-tree reflog remote repack replace request-pull rerere reset restore rev-list rev-parse revert rm shortlog"
    " show show-branch show-index show-ref sparse-checkout stage stash status stripspace submodule switch symbolic-ref"
    " tag unpack-file unpack-objects update-index update-ref update-server-info var verify-commit verify-pack"
    " verify-tag version whatchanged worktree write-tree"
)

# program, or its words as far as they name a command → what is known of its arguments
PROGRAMS: dict[str, Row] = {
    "git": Row(
        "-C= -c=! --exec-path! --config-env=! --html-path --man-path --info-path -p --paginate -P --no-pager"
        " --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --bare --git-dir= --work-tree="
        " --namespace= --super-prefix= --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs"
        " --list-cmds= --attr-source= -v --version -h --help",
        commands=True, harmless=_GIT_HARMLESS,
    ),
    **_rows("docker, podman, nerdctl", Row(_DOCKER, commands=True)),
    "docker-compose": Row(
        "-f= --file= -p= --project-name= --profile= --env-file= --project-directory= --ansi= --progress= --parallel="
        " --compatibility --dry-run --verbose -H= --host= -c= --context= -v --version -h --help",
        commands=True,
    ),
    **_rows("kubectl, oc", Row(_KUBECTL, commands=True, throughout=True)),
    "helm": Row(
        "-n= --namespace= --kube-context= --kube-apiserver= --kube-as-user= --kube-token= --debug --burst-limit= --qps="
        " --registry-config= --repository-cache= --repository-config= -h --help --kubeconfig=! --post-renderer=!",
        commands=True, throughout=True,
    ),
    **_rows("npm, pnpm, yarn", Row(_NPM, commands=True, throughout=True)),
    "npx": Row(_NPM + " -p= --package= -c=! --call=!", commands=True),
    "cargo": Row(
        "-V --version --list --explain= -v --verbose -q --quiet --color= -C= --locked --offline --frozen -Z= -h --help"
        " --config=!",
        commands=True, throughout=True,
    ),
    "rustup": Row("-v --verbose -q --quiet -h --help -V --version", commands=True),
    "go": Row("-C=", commands=True),
    **_rows("pip, pip3", Row(_PIP, commands=True, throughout=True)),
    "uv": Row(
        "-q --quiet -v --verbose --offline --no-cache -n --cache-dir= --project= --directory= --color= --no-progress"
        " --no-config --native-tls --no-python-downloads --python-preference= -h --help -V --version --config-file=!",
        commands=True, throughout=True,
    ),
    "poetry": Row(
        "-q --quiet -v -vv -vvv --verbose --ansi --no-ansi -n --no-interaction --no-plugins --no-cache -C= --directory="
        " -P= --project= -h --help -V --version",
        commands=True,
    ),
    **_rows("make, gmake", Row(
        "-C= --directory= -j --jobs -k --keep-going -s --silent --quiet -B --always-make -n --just-print --dry-run -i"
        " --ignore-errors -l --load-average -O --output-sync -q --question -r --no-builtin-rules -R -S -t --touch -w"
        " --print-directory --no-print-directory --warn-undefined-variables --trace --debug -d -p -e -v --version -h"
        " --help -f=! --file=! --makefile=! --eval=! -E=! -I=! --include-dir=! -W= -o=",
        commands=True, throughout=True,
    )),
    "systemctl": Row(_SYSTEMCTL, commands=True),
    "terraform": Row("-chdir= -help -version --version --help", commands=True),
    "tofu": Row("-chdir= -help -version --version --help", commands=True),
    "gh": Row("-R= --repo= --hostname= -h --help --version", commands=True),
    "hg": Row(
        "-R= --repository= --cwd= -y --noninteractive -q --quiet -v --verbose --debug --traceback --encoding= --time"
        " --profile --version -h --help --hidden --color= --pager= --config=!",
        commands=True, throughout=True,
    ),
    "svn": Row(
        "--username= --password= --non-interactive --no-auth-cache --trust-server-cert -q --quiet --version -h --help"
        " --config-dir=! --config-option=! --diff-cmd=! --editor-cmd=!",
        commands=True, throughout=True,
    ),
    **_rows("apt, apt-get", Row(
        "-y -q -qq --yes --assume-yes --no-install-recommends -o=! -c=! --option=! --config-file=! -s -v --version -h"
        " --help -t=",
        commands=True, throughout=True,
    )),
    # Code that stands in an argument, or comes from the input.
    **_rows("python, pypy, micropython, ipython", Row(_PYTHON, from_input=True)),
    **_rows("node, nodejs, tsx, ts-node, bun", Row(_NODE, from_input=True)),
    "perl": Row("-c -w -W -X -T -t -U -u -l -0 -a -S -F=! -v? -V? -h?", from_input=True),
    "ruby": Row("-C= -W -w -c -U -v? --version? -h? --help? -I=!", from_input=True),
    "php": Row("-f= -S= -t= -s -w -q -C -H -l -n -i? -m? -v? --version? -h? --help?", from_input=True),
    **_rows(
        "lua, luajit, irb, R, Rscript, julia, elixir, erl, iex, groovy, scala, jshell, tclsh, wish, guile, racket,"
        " sbcl, clisp, ghci, runghc, ocaml, octave, gnuplot, dc, swipl, pwsh",
        Row(_TELLS, from_input=True),
    ),
    "m4": Row("-P -s -E -Q --prefix-builtins --synclines -D=! --define=!", from_input=True),
    "deno": Row("-q --quiet -V --version -h --help -L= --log-level=", commands=True),
    "deno run": Row(from_input=True),
    **_rows("deno eval, deno repl, gh alias, gh extension", Row(always=True)),
    **_rows("psql, duckdb", Row(_SQL + " -f=. --file=.", always=True)),
    **_rows("mysql, mariadb, sqlite3, sqlite, mongosh, mongo", Row(_SQL, always=True)),
    **_rows("ssh, autossh, mosh, expect, gdb, lldb, vim, vi, nvim, view, ex, ed", Row(_TELLS, always=True)),
    **_rows("emacs, socat, at, batch, crontab, tmux, screen, rename, prename, ansible", Row(_TELLS, always=True)),
    **_rows("direnv, run-parts, nix-shell", Row(_TELLS, always=True)),
    # Options that run something, or say what is run.
    **_rows("tar, gtar, bsdtar", Row(
        "--to-command=! --checkpoint-action=! -I=! --use-compress-program=! --rsh-command=! --rmt-command=! -F=!"
        " --info-script=! --new-volume-script=!", anywhere=True,
    )),
    **_rows("scp, sftp", Row("-S=! -o=! -F=! -D=! -J=!", anywhere=True)),
    "rsync": Row("-e=! --rsh=! --rsync-path=! --early-exec=!", anywhere=True),
    "zip": Row("-T! --test! -TT=! --unzip-command=!", anywhere=True),
    "sort": Row("--compress-program=!", anywhere=True),
    "split": Row("--filter=!", anywhere=True),
    "rg": Row("--pre=! --hostname-bin=!", anywhere=True),
    "ag": Row("--pager=!", anywhere=True),
    "ack": Row("--pager=! --output=! --ackrc=!", anywhere=True),
    **_rows("fd, fdfind", Row("-x! -X! --exec! --exec-batch!", anywhere=True)),
    "man": Row("-P=! --pager=! -H! --html! -C=! --config-file=! --preprocessor=!", anywhere=True),
    **_rows("nc, ncat, netcat", Row("-e=! -c=! --exec=! --sh-exec=! --lua-exec=!", anywhere=True)),
    "wget": Row("-e=! --execute=! --use-askpass=! --config=!", anywhere=True),
    "curl": Row("-K=! --config=!", anywhere=True),
    "openssl": Row("-engine=! -provider=! -provider-path=! -config=!", anywhere=True),
    "install": Row("--strip-program=!", anywhere=True),
    **_rows("gcc, g++, cc, c++, clang, clang++, c89, c99, gfortran", Row(
        "-B=! -wrapper=! -fplugin=! -fpass-plugin=! -fmodule-mapper=! -specs=! --specs=! -fuse-ld=! -load=! -Xclang=!"
        " -Wl,-plugin! -Wl,--plugin! @",
        anywhere=True, clusters=False,
    )),
    **_rows("ar, gcc-ar, nm, ranlib, ld", Row("--plugin=! -plugin=! @", anywhere=True, clusters=False)),
    **_rows("diff3, sdiff", Row("--diff-program=!", anywhere=True)),
    "dpkg": Row("--pre-invoke=! --post-invoke=! --status-logger=!", anywhere=True),
    **_rows("ssh-keygen, ssh-add", Row("-D=! -s=! -S=! -w=!", anywhere=True)),
    "ctest": Row("--test-command=! --build-makeprogram=!", anywhere=True),
    "meson": Row("--wrapper=! --gdb-path=!", anywhere=True),
    **_rows("bazel, bazelisk", Row("--run_under=! --workspace_status_command=!", anywhere=True)),
    **_rows("gpg, gpg2", Row("--exec-path=! --photo-viewer=! --agent-program=! --dirmngr-program=!", anywhere=True)),
    "ssh-copy-id": Row("-o=!", anywhere=True),
    "java": Row(
        "-javaagent! -agentpath! -agentlib! -XX:OnError! -XX:OnOutOfMemoryError! @", anywhere=True, clusters=False,
    ),
    "npm set": Row(always=True),
    "npm exec": Row("-c=! --call=!", anywhere=True),
    **_rows("npm config, pnpm config, yarn config, pip config, go env", Row(
        "-w! --editor=! set! edit!", anywhere=True,
    )),
    **_rows("go build, go test, go run, go vet, go install, go list, go generate, go get, go fix", Row(
        "-exec=! --exec=! -toolexec=! --toolexec=! -vettool=! --vettool=! -overlay=! --overlay=!", anywhere=True,
    )),
    # git's own
    "git bisect run": Row(always=True),
    "git submodule foreach": Row(always=True),
    "git config": Row(always=True),
    "git rebase": Row("-x=! --exec=!", anywhere=True),
    "git difftool": Row("-x=! --extcmd=! -t=! --tool=!", anywhere=True),
    "git mergetool": Row("-t=! --tool=!", anywhere=True),
    "git grep": Row("-O! --open-files-in-pager!", anywhere=True),
    "git clone": Row("-c=! --config=! -u=! --upload-pack=! --template=!", anywhere=True),
    **_rows("git init, git init-db", Row("--template=!", anywhere=True)),
    **_rows("git fetch, git pull, git ls-remote, git fetch-pack", Row("--upload-pack=! --exec=!", anywhere=True)),
    **_rows("git push, git send-pack", Row("--receive-pack=! --exec=!", anywhere=True)),
    "git archive": Row("--exec=!", anywhere=True),
}  # fmt: skip
