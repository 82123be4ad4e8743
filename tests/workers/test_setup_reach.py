"""Which setup commands are known to install what others have made, and nothing of the project."""

from __future__ import annotations

import time

import pytest

from workers.recipes.setup_again import TOO_LARGE
from workers.recipes.setup_reach import reach_of

PLAIN = "[build-system]\nrequires = ['setuptools>=61']\nbuild-backend = 'setuptools.build_meta'\n" \
    "[project]\nname = 'shop'\nversion = '1'\ndependencies = ['six>=1; python_version > \"3\"']\n"  # fmt: skip
SETUP_PY = "from setuptools import find_packages, setup\n\nsetup(name='shop', packages=find_packages('src'){})\n"
NODE = '{"name": "shop", "scripts": {"test": "jest"%s}, "dependencies": {"left-pad": "%s"}}'

KNOWN: list[tuple[str, dict[str, str]]] = [
    ("pip install pytest 'six>=1,<2' text-unidecode", {}),
    ("python -m pip install -q -U pip && pip install pytest", {}),
    ("pip install --extra-index-url https://index.example/simple git+https://git.example/x.git", {}),
    ("pip install -r requirements/test.txt", {
        "requirements/test.txt": "# tools\n-r base.txt\npytest ~= 8.0 ; python_version > '3.8'\n",
        "requirements/base.txt": "six==1.17.0 \\\n    --hash=sha256:ab12\n--index-url https://index.example/simple\n",
    }),
    ("pip install -e '.[test]'", {"pyproject.toml": PLAIN}),
    ("pip install -e .", {"pyproject.toml": PLAIN.replace("setuptools>=61", "hatchling").replace(
        "setuptools.build_meta", "hatchling.build") + "[tool.hatch.build.targets.wheel]\npackages = ['src/shop']\n"}),
    ("pip install -e .", {"setup.py": SETUP_PY.format(""), "setup.cfg": "[metadata]\nname = s\n[flake8]\nmax = 9\n"}),
    ("pip install -e .", {"pyproject.toml": PLAIN + "dynamic = ['readme']\n"}),
    ("pip install -e .", {"setup.py": SETUP_PY.format(", version=open('v').read()")}),
    ("npm ci --no-audit", {"package.json": NODE % ("", "^1.0")}),
    ("yarn install --frozen-lockfile", {"package.json": NODE % ("", "^1"), "web/package.json": NODE % ("", "^1")}),
    ("go mod download", {}),
    ("poetry install --with dev --no-root", {"pyproject.toml": "[tool.poetry.dependencies]\nsix = '*'\n"}),
    ("uv sync --frozen --no-install-project", {}),
    ("bundle install --jobs 4", {"Gemfile": "gem 'rake'\n"}),
    ("composer install --no-scripts", {}),
]  # fmt: skip
UNKNOWN: list[tuple[str, dict[str, str]]] = [
    ("pip install .", {"pyproject.toml": PLAIN}),
    ("pip install ./lib", {}),
    ("pip install dist/shop-1.whl", {}),
    ("pip install shop-1.tar.gz", {}),
    ("pip install 'shop @ file:///workspace'", {}),
    ("pip install pytest\nsh build.sh", {}),
    ("pip install pytest; sh build.sh", {}),
    ("pip install pytest && sh build.sh", {}),
    ("pip install pytest > /dev/null", {}),
    ("pip install $(cat names)", {}),
    ("pip install `cat names`", {}),
    ("PIP_INDEX_URL=x pip install six", {}),
    ("pip install 'six", {}),
    ("pip install -f wheels six", {}),
    ("pip install -r", {}),
    ("pip install -r missing.txt", {}),
    ("pip install -r all.txt", {"all.txt": "six\n./lib\n"}),
    ("pip install -r all.txt", {"all.txt": "-e ./lib\n"}),
    ("pip install -r a/all.txt", {"a/all.txt": "-r ../b.txt\n", "b.txt": "file:lib\n"}),
    ("pip install -e .", {}),
    ("pip install -e ./lib", {"pyproject.toml": PLAIN}),
    ("pip install -e .", {"pyproject.toml": PLAIN.replace("'setuptools>=61'", "'setuptools', 'Cython'")}),
    ("pip install -e .", {"pyproject.toml": PLAIN.replace("setuptools.build_meta", "mesonpy")}),
    ("pip install -e .", {"pyproject.toml": PLAIN + "[tool.setuptools]\next-modules = []\n"}),
    ("pip install -e .", {"pyproject.toml": PLAIN.replace("setuptools>=61", "hatchling").replace(
        "setuptools.build_meta", "hatchling.build") + "[tool.hatch.build.hooks.custom]\npath = 'x.py'\n"}),
    ("pip install -e .", {"pyproject.toml": PLAIN.replace("six>=1", "six @ file:///workspace/six")}),
    ("pip install -e .", {"pyproject.toml": "[["}),
    ("pip install -e .", {"setup.py": SETUP_PY.format(", ext_modules=[]")}),
    ("pip install -e .", {"setup.py": "import os\nos.system('make')\n" + SETUP_PY.format("")}),
    ("pip install -e .", {"pyproject.toml": PLAIN, "setup.cfg": "[build_ext]\ninplace = 1\n"}),
    ("uv pip install -e .", {"pyproject.toml": PLAIN}),
    ("npm ci", {"package.json": NODE % (', "prepare": "tsc"', "^1.0")}),
    ("npm ci", {"package.json": NODE % ("", "file:lib")}),
    ("npm ci", {"package.json": NODE % ("", "^1"), "web/package.json": NODE % (', "postinstall": "x"', "^1")}),
    ("npm ci", {"package.json": NODE % ("", "^1"), ".npmrc": "node-options=-r ./x.js\n"}),
    ("npm run build", {"package.json": NODE % ("", "^1.0")}),
    ("npm install ./lib", {"package.json": NODE % ("", "^1.0")}),
    ("poetry install", {}),
    ("poetry install --no-root", {"pyproject.toml": "[tool.poetry.dependencies]\nlib = {path = 'lib'}\n"}),
    ("uv sync", {}),
    ("bundle install", {"Gemfile": "gemspec\n"}),
    ("make deps", {}),
    ("python setup.py build_ext --inplace", {}),
    ("cd lib && pip install six", {}),
]  # fmt: skip


async def again(command: str, files: dict[str, str]) -> bool:
    async def read(path: str) -> str | None:
        return files.get(path)

    reach = await reach_of([command], read, [name for name in files if name.endswith("package.json")])
    return bool(reach.again)


@pytest.mark.parametrize(("command", "files"), KNOWN)
async def test_what_installs_others_work_alone_is_not_done_again(command: str, files: dict[str, str]):
    assert not await again(command, files)


@pytest.mark.parametrize(("command", "files"), UNKNOWN)
async def test_what_may_take_more_or_is_not_known_is_done_again(command: str, files: dict[str, str]):
    assert await again(command, files)


HOSTILE = (
    ("pip install -e .", {"pyproject.toml": "a." * 100_000 + "a = 1"}),
    ("pip install -e .", {"setup.cfg": "[a]\nb = 1\n" + "\n" * 200_000, "setup.py": "(" * 200_000}),
    ("pip install -r a", {"a": "six ;" + " " * 100_000 + "x\n" + "-r " * 50_000 + "[" * 50_000}),
    ("true && " * 50_000 + "sh x.sh", {}),
    ("npm ci", {"package.json": "[" * 200_000}),
)


@pytest.mark.parametrize(("command", "files"), HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_files_are_read_at_once(command: str, files: dict[str, str]):
    began_s = time.process_time()

    assert await again(command, files)

    assert time.process_time() - began_s < 2


@pytest.mark.parametrize("command", ["pip install -r a", "pip install -e .", "npm ci", "uv sync --no-install-project"])
async def test_what_is_too_large_to_be_read_may_take_anything(command: str):
    names = ("a", "pyproject.toml", "package.json", "uv.lock")

    assert await again(command, dict.fromkeys(names, TOO_LARGE.decode()))


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("pip install six && npm ci && npm run build && true", "npm run build && true"),
        ("cd web && npm ci && npm run build", "cd web && npm ci && npm run build"),
        ("pip install six && echo 'a && b' && sh x.sh", "echo 'a && b' && sh x.sh"),
    ],
)
async def test_what_is_known_at_the_beginning_is_left_out(command: str, left: str):
    async def read(path: str) -> str | None:
        return None

    assert (await reach_of([command], read, [])).again == (left,)


async def test_the_files_by_which_it_is_chosen_what_to_install_are_told():
    files = {"requirements.txt": "-c pins.txt\nsix\n", "pins.txt": "six==1\n", "package.json": NODE % ("", "^1")}

    async def read(path: str) -> str | None:
        return files.get(path)

    reach = await reach_of(["pip install -r requirements.txt", "npm ci"], read, ["package.json"])

    assert reach.again == ()
    assert {"requirements.txt", "pins.txt", "package.json", "package-lock.json"} <= reach.read
