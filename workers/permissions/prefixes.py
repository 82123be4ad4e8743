"""How many words say what a command does: what "always" allows is every command that begins with the same ones.

A table, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

# how many words → the beginnings of which this holds; a longer beginning wins over a shorter one. One word is enough
# for what is not here. Options that stand before a program's command are left out before words are counted.
_BEGINNINGS: dict[int, tuple[str, ...]] = {
    2: (
        *("ansible", "apk", "apt", "apt-get", "bazel", "brew", "bun", "bundle", "cargo", "cdk", "cf", "choco"),
        *("cmake", "composer", "conan", "conda", "consul", "corepack", "crictl", "dart", "deno", "dnf", "docker"),
        *("docker-compose", "dotnet", "eksctl", "firebase", "flutter", "fly", "flyctl", "gem", "git", "go", "gradle"),
        *("gradlew", "./gradlew", "hatch", "helm", "heroku", "hg", "hugo", "ip", "java", "jest", "just", "kind"),
        *("kubectl", "kustomize", "lerna", "make", "mamba", "mc", "meson", "minikube", "mise", "mix", "mongosh"),
        *("mvn", "mvnw", "./mvnw", "mysql", "ng", "ninja", "nix", "node", "nomad", "npm", "npx", "nvm", "nx"),
        *("openssl", "pdm", "perl", "php", "pip", "pip3", "pipenv", "pipx", "pnpm", "podman", "poetry", "pre-commit"),
        *("psql", "pulumi", "pyenv", "python", "python3", "rails", "rake", "rbenv", "redis-cli", "ruby", "rustup"),
        *("sbt", "serverless", "service", "skaffold", "sls", "snap", "sst", "stack", "svn", "swift", "systemctl"),
        *("tailscale", "task", "terraform", "tmux", "tofu", "tox", "turbo", "ufw", "uv", "uvx", "vagrant", "vault"),
        *("vercel", "volta", "wp", "wrangler", "yarn", "yum", "zig"),
    ),
    3: (
        *("aws", "az", "doctl", "gcloud", "gh", "glab", "sfdx"),
        *("bun run", "bun x", "bundle exec", "cargo add", "cargo run", "composer run", "conda env", "conda run"),
        *("consul kv", "deno task", "dotnet tool", "go mod", "go tool", "go work", "hatch env", "hatch run"),
        *("docker builder", "docker buildx", "docker compose", "docker container", "docker context", "docker image"),
        *("docker manifest", "docker network", "docker system", "docker volume", "eksctl create", "flutter pub"),
        *("git bisect", "git config", "git notes", "git reflog", "git remote", "git stash", "git submodule"),
        *("git worktree", "helm repo", "ip addr", "ip link", "ip netns", "ip route", "kind create", "kubectl config"),
        *("kubectl kustomize", "kubectl rollout", "mc admin", "nix flake"),
        *("npm exec", "npm init", "npm run", "npm view", "openssl req", "openssl x509", "pdm run", "pipenv run"),
        *("pipx run", "pnpm dlx", "pnpm exec", "pnpm run", "podman container", "podman image", "poetry env"),
        *("poetry run", "pulumi stack", "python -m", "python3 -m", "redis-cli config", "rustup component"),
        *("rustup target", "rustup toolchain", "swift package", "terraform state", "terraform workspace", "uv pip"),
        *("uv run", "uv tool", "vault auth", "vault kv", "yarn dlx", "yarn run", "yarn workspace"),
    ),
}
PREFIX_WORDS: dict[str, int] = {start: words for words, starts in _BEGINNINGS.items() for start in starts}


def prefix_words(names: Sequence[str]) -> int:
    """
    >>> prefix_words(["git", "remote", "add", "x"]), prefix_words(["git", "log"]), prefix_words(["ls", "-l"])
    (3, 2, 1)
    """
    starts = (" ".join(names[:length]) for length in (3, 2, 1))
    return next((PREFIX_WORDS[start] for start in starts if start in PREFIX_WORDS), 1)
