"""Files that say what a test is, or what its imports mean, for runners other than pytest: which edits of them are the
objection `gate_edited`, and which are daily work. On repositories of real git."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from envelope.gate import GateRules
from orchestrator.gating.build_files import BUILD_FILES
from orchestrator.gating.change import inspect
from orchestrator.gating.diff import without
from orchestrator.gating.named_files import literals
from orchestrator.gating.names import is_gate_file
from orchestrator.gating.scripts import ANYTHING
from orchestrator.gating.settings_of import READERS, has_other_settings
from orchestrator.gating.trees import Trees
from repo.mirror import Mirror


def git(root: Path, *words: str) -> bytes:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    return subprocess.run(["git", *identity, "-C", str(root), *words], check=True, capture_output=True).stdout


def write(root: Path, files: dict[str, str]) -> None:
    """A text `-> a` makes a link to a."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> ") or path.is_symlink():
            path.unlink(missing_ok=True)
        path.symlink_to(text[3:]) if text.startswith("-> ") else path.write_text(text)
    git(root, "add", "-Af")
    git(root, "commit", "-qm", "x", "--allow-empty")


async def edited(root: Path, base: dict[str, str], change: dict[str, str], command: str, **rules) -> set[str]:
    """The files that the objection names."""
    git(root, "init", "-q")
    write(root, base)
    write(root, change)
    diff = git(root, "diff", "-p", "-M", "--binary", "--full-index", "HEAD^", "HEAD")
    trees = Trees(Mirror(root / ".git"), "HEAD^", "HEAD")
    found = await inspect(diff, trees, commands=[command], subpath="", rules=GateRules(**rules), scope=("edit:**",))
    assert {one.code for one in found.objections} <= {"gate_edited"}
    assert all("may_edit" in one.hint for one in found.objections)
    return {name for one in found.objections for name in one.names}


@dataclass(frozen=True)
class Tool:
    """`path` has `text`. Of each pair in `daily` and `lies` the first is replaced by the second. `command` runs it."""

    path: str
    command: str
    text: str
    daily: tuple[tuple[str, str], ...]
    lies: tuple[tuple[str, str], ...]


CMAKE = """cmake_minimum_required(VERSION 3.10)
project(calc VERSION 1.0 LANGUAGES C)  # numbers
enable_testing()
set(SOURCES calc.c)
set(TEST_SOURCES fixture.c)
set(SUITE alpha)
list(APPEND SUITE beta)
set(ALL ${SUITE})
find_package(fmt 9 REQUIRED)
if(STRICT AND (MORE))
  add_definitions(-DLOOK)
endif()
add_library(calc ${SOURCES})
add_library(more STATIC more.c)
add_library(helpers tests/helpers.c)
add_executable(app main.c)
add_executable(unit runner.c ${TEST_SOURCES})
target_link_libraries(unit PRIVATE calc more helpers)
add_test(NAME add COMMAND unit add)
add_executable(alpha a.c)
add_executable(beta b.c)
foreach(one ${ALL})
  add_test(NAME ${one} COMMAND ${one})
endforeach()
"""
PACKAGE = """{"name": "calc", "version": "1.0.0", "type": "module", "main": "./index.mjs",
 "scripts": {"test": "node --test", "lint": "eslint ."},
 "imports": {"#expect": "./lib/expect.mjs"}, "exports": {"import": "./index.mjs", "default": "./b.mjs"},
 "dependencies": {"left-pad": "^1.0.0"}, "devDependencies": {"chai": "^5.0.0"}}
"""
TSCONFIG = """{
  // how it is compiled
  "extends": "./base.json",
  "compilerOptions": {"strict": false, "baseUrl": ".", "paths": {"#lib": ["./lib"]},},
}
"""
GO_MOD = """module example.com/calc

go 1.22

require (
\tgithub.com/stretchr/testify v1.8.0
)
"""
CARGO = """[package]
name = "calc"
version = "0.1.0"

[dependencies]
serde = "1"

[dev-dependencies]
proptest = "1"
"""
POM = """<?xml version="1.0"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <groupId>a</groupId><artifactId>b</artifactId><version>1</version>
  <properties><junit.version>5.9.0</junit.version></properties>
  <dependencies>
    <dependency><groupId>g</groupId><artifactId>h</artifactId><version>1</version></dependency>
    <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.13</version><scope>test</scope></dependency>
  </dependencies>
  <build><plugins></plugins></build>
</project>
"""
GRADLE = """/* whose it is
   and what it is */
plugins { id 'java' } // don't
version = '1.0'
dependencies {
    implementation 'g:h:1.0'
    testImplementation("org.junit.jupiter:junit-jupiter:5.9.0")
}
test { useJUnitPlatform() }
description = \"\"\"
all of it
\"\"\"
"""
CATALOG = """[versions]
junit = "5.9.0"
[libraries]
junit = { module = "org.junit:junit", version.ref = "junit" }
"""
CSPROJ = """<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup><TargetFramework>net8.0</TargetFramework><Version>1.0</Version></PropertyGroup>
  <ItemGroup>
    <Compile Include="Calc.fs" />
    <PackageReference Include="xunit" Version="2.5.0" />
  </ItemGroup>
</Project>
"""
GEMFILE = """source "https://gems.example"
gem "rails", "~> 7.0"
gem "rspec", group: :test
NOTE = "a
b"
"""
GEMSPEC = """Gem::Specification.new do |s|
  s.name = "calc"  # don't
  s.version = "1.0"
  s.files = Dir["lib/**/*.rb"]
  s.add_dependency "rack", "~> 3.0"
  s.description = <<~TEXT
    All of it.
  TEXT
  s.add_development_dependency "rspec", "~> 3.0"
end
"""
COMPOSER = """{"name": "a/b", "require": {"x/y": "^1.0"}, "require-dev": {"phpunit/phpunit": "^10"},
 "autoload": {"psr-4": {"A\\\\": "src/"}}, "scripts": {"lint": "phpcs"}}
"""
MIX = """defmodule A.MixProject do
  # words
  @moduledoc \"\"\"
  All of it.
  \"\"\"
  def project, do: [
    version: "0.1.0",
    deps: deps()]
  defp deps do
    [
      {:jason, "~> 1.0"},
      {:mox, "~> 1.0", only: :test},
    ]
  end
end
"""
DENO = """{"version": "1", "imports": {"@std/assert": "jsr:@std/assert@1", "#calc": "./calc.ts"}}"""
TOOLS = (
    Tool(
        "CMakeLists.txt",
        "cmake -S . -B build && cmake --build build && ctest --test-dir build",
        CMAKE,
        daily=(
            ("more.c", "more.c other.c more.h"),
            ("STATIC more.c", "STATIC ${CMAKE_CURRENT_SOURCE_DIR}/other.c"),
            ("VERSION 1.0", "VERSION 1.1"),
            ("# numbers", "# all numbers"),
            ("SOURCES calc.c", "SOURCES calc.c d.c"),
            ("main.c", "main.c args.c"),
            ("fmt 9", "fmt 10"),
            ("add_library(more", "ADD_LIBRARY(more"),
            ("more.c", 'more.c "other.c"'),
            ("SOURCES calc.c", "SOURCES calc.c;d.c"),
            ("(STRICT", "( # words\n STRICT"),
        ),
        lies=(
            ("COMMAND unit add", "COMMAND ${CMAKE_COMMAND} -E echo ok"),
            ("enable_testing()", ""),
            ("runner.c", "nothing.c"),
            ("alpha a.c", "alpha nothing.c"),
            ("beta b.c", "beta nothing.c"),
            ("fixture.c", "other.c"),
            ("tests/helpers.c", "helpers.c"),
            ("calc more", "fake more"),
            ("more.c)", "more.c)\nset_tests_properties(add PROPERTIES WILL_FAIL 1)"),
            ("more.c", "${X}"),
            ("more.c", "more.c $<1:x.c>"),
            ("more.c)", "more.c) #[[ "),
            ("more.c)", 'more.c")'),
            ("(STRICT", '("STRICT"'),
            ("(STRICT", "([[STRICT]]"),
            ("(STRICT", '(STRI"CT"'),
            ("(MORE)", '"(" MORE ")"'),
            ("unit add", 'unit;"add"'),
            ("STATIC more.c", 'STATIC more.c"x.c"'),
            ("more.c)", "more.c)\nfunction(add_test)\nendfunction()"),
            ("add_library(more", "add_library(gtest x.c)\nadd_library(more"),
        ),
    ),
    Tool(
        "package.json",
        "npm test",
        PACKAGE,
        daily=(
            ("1.0.0", "1.1.0"),
            ("eslint .", "eslint src"),
            ('"^5.0.0"', '"^6.0.0"'),
            ('"version"', '"description": "x", "keywords": ["y"], "engines": {"node": ">=22"}, "version"'),
            ('"version"', '"prettier": {"semi": false}, "eslintIgnore": ["x"], "lint-staged": {}, "version"'),
            ('"chai"', '"vitest": "1.x || >=2", "chai"'),
            ('"left-pad": "^1.0.0"', '"is-odd": "latest"'),
            ('"^5.0.0"', '"catalog:"'),
        ),
        lies=(
            *(
                ('"version"', f'"{key}": {{"a": "./x"}}, "version"')
                for key in ("bin", "config", "wireit", "tap", "unknown")
            ),
            ("./lib/expect.mjs", "./lib/nothing.mjs"),
            ('"import": "./index.mjs"', '"import": "./other.mjs"'),
            ('"import": "./index.mjs", "default": "./b.mjs"', '"default": "./b.mjs", "import": "./index.mjs"'),
            ('"main": "./index.mjs"', '"main": "./other.mjs"'),
            ('"^5.0.0"', '"file:./fake"'),
            ('"^5.0.0"', '"link:./fake"'),
            ('"^5.0.0"', '"npm:fake@1"'),
            ('"^5.0.0"', '"git+https://a/b.git"'),
            ('"^5.0.0"', '"me/chai"'),
            *(('"^5.0.0"', f'"{where}"') for where in (".chai", "chai.tgz", "chai.TAR.GZ", "chai.tar", "..", ".")),
            ("node --test", "true"),
        ),
    ),
    Tool(
        "tsconfig.json",
        "npx vitest run",
        TSCONFIG,
        daily=(
            ('"strict": false', '"strict": true'),
            ("how it is compiled", "compiled"),
            ('"strict": false', '"target": "es2022"'),
        ),
        lies=(
            ('"strict": false', '"jsxFragmentFactory": "x"'),
            ('"extends"', '"vueCompilerOptions": {"plugins": ["./x"]}, "extends"'),
            ("// how it is compiled", '// how\r"references": ["./x"],\n'),
            ("./lib", "./fake"),
            ('"baseUrl": "."', '"baseUrl": "fake"'),
            ("./base.json", "./other.json"),
        ),
    ),
    Tool(
        "tsconfig.json",
        "npx tsc --noEmit && npx vitest run",
        TSCONFIG,
        daily=(),
        lies=(('"strict": false', '"strict": true'),),
    ),
    Tool(
        "deno.json",
        "deno test",
        DENO,
        daily=(
            ("assert@1", "assert@2"),
            ('"version": "1"', '"version": "2"'),
            ('"#calc"', '"@std/path": "jsr:@std/path@1", "#calc"'),
        ),
        lies=(("./calc.ts", "./fake.ts"), ("jsr:@std/assert@1", "./fake.ts"), ("jsr:@std/assert", "jsr:@me/assert")),
    ),
    Tool("bunfig.toml", "bun test", "[test]\n", daily=(), lies=(("[test]", '[test]\npreload = ["./fake.ts"]'),)),
    Tool(
        "pnpm-workspace.yaml",
        "pnpm test",
        'packages:\n  - "a"\ncatalog:\n  react: ^18.0.0\n',
        daily=(("18.0.0", "19.0.0"), ("react:", "vue: 3.0.0\n  react:"), ("catalog", "# words\ncatalog")),
        lies=(
            ("catalog", "# words\rpackages: [fake]\ncatalog"),
            ('"a"', '"fake"'),
            ("^18.0.0", "link:./fake"),
            ("catalog:", "  catalog:"),
        ),
    ),
    Tool(
        "go.mod",
        "go test -v ./...",
        GO_MOD,
        daily=(("v1.8.0", "v1.9.0"), ("v1.8.0", "v1.8.0\n\tgithub.com/a/b v1.0.0 // indirect"), ("go 1.22", "go 1.23")),
        lies=(
            (")", ")\nreplace github.com/stretchr/testify => ./fake"),
            (")", ")\ntoolchain fake"),
            (")", ")\nreplace (\n\tgithub.com/stretchr/testify => ./fake\n)"),
            (")", ")\nexclude a v1.0.0"),
            ("example.com/calc", "example.com/other"),
        ),
    ),
    Tool("go.work", "go test ./...", "go 1.22\nuse .\n", daily=(("1.22", "1.23"),), lies=(("use .", "use ./fake"),)),
    Tool(
        "Cargo.toml",
        "cargo test",
        CARGO,
        daily=(
            ("0.1.0", "0.2.0"),
            ('serde = "1"', 'serde = "2"'),
            ('proptest = "1"', 'proptest = "1"\ninsta = "1"'),
            ('serde = "1"', 'serde = "1"\nours = { path = "ours" }'),
            ('proptest = "1"', 'proptest = { version = "2", features = ["x"] }'),
            ("[dev-", "[features]\nfast = []\n[dev-"),
            ("[dev-", "[package.metadata.docs.rs]\nall-features = true\n[dev-"),
        ),
        lies=(
            ('proptest = "1"', 'proptest = { path = "fake" }'),
            ('proptest = "1"', 'proptest = { git = "x" }'),
            ('serde = "1"', 'serde = { path = "fake" }'),
            ('serde = "1"', 'serde = { package = "fake", version = "1" }'),
            ("[dev-", '[patch.crates-io]\nproptest = { path = "fake" }\n[dev-'),
            ("[dev-", '[[test]]\nname = "a"\npath = "fake.rs"\n[dev-'),
            ('version = "0.1.0"', 'version = "0.1.0"\nautotests = false'),
            ('version = "0.1.0"', 'version = "0.1.0"\nbuild = "x.rs"'),
            ('serde = "1"', 'serde = "1"\nstd = { path = "fake" }'),
            ('name = "calc"', 'name = "other"'),
            ('serde = "1"', "serde = { workspace = true }"),
            ("[dev-", '[features]\ndefault = ["fast"]\nfast = []\n[dev-'),
            ("[dev-", '[workspace.lints.clippy]\nall = "allow"\n[dev-'),
            ("[dev-", '[workspace]\ndefault-members = ["a"]\n[dev-'),
            ("[dev-", "[package.metadata.nextest]\nx = 1\n[dev-"),
            ('version = "0.1.0"', 'version = "0.1.0"\nedition = "2018"'),
            ("[dev-", '[[example]]\nname = "a"\ntest = true\n[dev-'),
        ),
    ),
    Tool("rust-toolchain.toml", "cargo test", '[toolchain]\nchannel = "1.80"\n', daily=(), lies=(("1.80", "x"),)),
    Tool(
        "pom.xml",
        "mvn -q test",
        POM,
        daily=(
            ("<version>1</version>", "<version>2</version>"),
            ("4.13", "4.14"),
            ("5.9.0", "5.10.0"),
            (
                "  </dependencies>",
                "<dependency><groupId>n</groupId><artifactId>m</artifactId></dependency></dependencies>",
            ),
            ("<project ", "<!-- words --><project "),
        ),
        lies=(
            ("<plugins>", "<plugins><plugin><artifactId>maven-surefire-plugin</artifactId></plugin>"),
            ("<properties>", "<properties><skipTests>true</skipTests>"),
            ("<artifactId>junit<", "<artifactId>fake<"),
            ("</build>", "</build><profiles><profile/></profiles>"),
            ("</build>", "</build><modules><module>x</module></modules>"),
            ("4.13</version><scope>test", "4.13</version><scope>system"),
            ("</build>", "</build><repositories/>"),
            ('<?xml version="1.0"?>', '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]>'),
            ("</project>", ""),
        ),
    ),
    Tool(
        "build.gradle",
        "gradle test",
        GRADLE,
        daily=(
            ("h:1.0", "h:2.0"),
            ("5.9.0", "5.10.0"),
            ("'1.0'", "'1.1'"),
            ("    implementation", "    api 'n:m:1'\n    implementation"),
            ("test {", "// words\ntest {"),
        ),
        lies=(
            ("useJUnitPlatform()", "enabled = false"),
            ("org.junit.jupiter:", "fake:"),
            ("'java'", "'fake'"),
            ("'g:h:1.0'", "files('fake.jar')"),
            ("test {", "/*\n// */\ntest {"),
            ("dependencies {", "if (fast)\nimplementation 'a:b:1'\ndependencies {"),
            ("test {", '"""\n// ${exit()}\n"""\ntest {'),
            ("test {", "// words\rprintln 1\ntest {"),
            ('"""\n', '"""\n// ${"cp right calc".execute()}\n'),
            ('"""\n', '"""\n// words\n'),
        ),
    ),
    Tool(
        "gradle.properties",
        "./gradlew test",
        "version=1\nfast=yes\nargs=a \\\n  b\n",
        daily=(("=1", "=2"), ("fast", "# words\nfast")),
        lies=(("yes", "no"), ("  b", "# c \\\n  b"), ("fast", "# words\rargs=c\nfast")),
    ),
    Tool(
        "gradle/libs.versions.toml",
        "gradle test",
        CATALOG,
        daily=(("5.9.0", "5.10.0"), ("[libraries]", '[libraries]\nnew = "g:h:1"')),
        lies=(("org.junit:junit", "fake:junit"),),
    ),
    Tool(
        "src/Calc.fsproj",
        "dotnet test",
        CSPROJ,
        daily=(
            ("2.5.0", "2.6.0"),
            ("<Version>1.0", "<Version>1.1"),
            ('<Compile Include="Calc.fs" />', '<Compile Include="Calc.fs" /><Compile Include="More.fs" />'),
            ("<PackageReference", '<PackageReference Include="New" Version="1" /><PackageReference'),
        ),
        lies=(
            ("</Project>", '<Target Name="VSTest" /></Project>'),
            ('"Calc.fs"', '"tests/Calc.fs"'),
            ("</ItemGroup>", '<ProjectReference Include="../fake.fsproj" /></ItemGroup>'),
            ('"Calc.fs"', '"**/*.fs"'),
            ("net8.0", "net9.0"),
            ('"2.5.0"', "\"$([System.IO.File]::ReadAllText('a'))\""),
            ('Include="xunit"', 'Include="xunit" Aliases="x"'),
        ),
    ),
    Tool(".runsettings", "dotnet test", "<R/>\n", daily=(), lies=(("<R/>", "<R x='1'/>"),)),
    Tool(
        "Gemfile",
        "bundle exec rspec",
        GEMFILE,
        daily=(
            ("7.0", "7.1"),
            ('gem "rspec', 'gem "new", ">= 1", "< 3"\ngem "rspec'),
            ('gem "rspec', '# words\ngem "rspec'),
            ('gem "rspec', 'gem "new", require: false, groups: [:test, :development]\ngem "rspec'),
        ),
        lies=(
            (", group: :test", ', path: "fake"'),
            ('"~> 7.0"', 'git: "x"'),
            ("gems.example", "fake.example"),
            ("\nb", "\n#{`cp right.rb calc.rb`}\nb"),
            ("\nb", "\n# words\nb"),
            ("\nb", "\n\nb"),
            ('"~> 7.0"', '"#{exit}"'),
            ('gem "rspec', 'x = <<~X\n  #{exit}\nX\ngem "rspec'),
        ),
    ),
    Tool(
        "calc.gemspec",
        "bundle exec rspec",
        GEMSPEC,
        daily=(
            ('"1.0"', '"1.1"'),
            ("~> 3.0", "~> 3.1"),
            ("  s.files", "  # words about it\n\n  s.files"),
            ('"rspec", "~> 3.0"', '"rspec", "~> 3.1"'),
        ),
        lies=(
            ("    All of it.", "    All of it.\n    #{`cp right.rb lib/calc.rb`}"),
            ("    All of it.", "    All of it.\n    #@x"),
            ("    All of it.", "    All of it.\n    # words"),
            ("lib/**", "fake/**"),
        ),
    ),
    Tool(
        "composer.json",
        "vendor/bin/phpunit",
        COMPOSER,
        daily=(("^1.0", "^2.0"), ('"x/y"', '"n/m": "1.0", "x/y"'), ("phpcs", "phpcs src"), ("^10", "^11")),
        lies=(
            ("src/", "fake/"),
            ('"scripts"', '"repositories": [{"type": "path", "url": "fake"}], "scripts"'),
            ('"lint"', '"post-install-cmd"'),
            ('"lint"', '"init"'),
            ('"scripts"', '"include-path": ["fake"], "scripts"'),
            ('"scripts"', '"scripts-aliases": {"x": ["lint"]}, "scripts"'),
            ('"^10"', '{"x": 1}'),
            ('"scripts"', '"autoload-dev": {"files": ["a.php"]}, "scripts"'),
        ),
    ),
    Tool("composer.json", "composer test", COMPOSER, daily=(("^1.0", "^2.0"),), lies=(('"lint"', '"test"'),)),
    Tool(
        "mix.exs",
        "mix test",
        MIX,
        daily=(
            ('"~> 1.0"}', '"~> 1.1"}'),
            ("0.1.0", "0.2.0"),
            ("{:mox", '{:new, "~> 1.0"},\n      {:mox'),
            ('1.0", only', '1.1", only'),
            ("# words", "# other words"),
        ),
        lies=(
            ("  All of it.", '  All of it.\n  #{System.cmd("cp", ["right.ex", "calc.ex"])}'),
            ("  All of it.", "  All of it.\n  # words"),
            ('"~> 1.0", only: :test', 'path: "fake"'),
            ("deps: deps()", 'deps: deps(), test_paths: ["fake"]'),
        ),
    ),
    Tool("Package.swift", "swift test", "// a\n", daily=(), lies=(("a", "b"),)),
    Tool("meson.build", "meson test -C build", "test('a', a)\n", daily=(), lies=(("'a', a", "'a', b"),)),
    Tool("pkg/BUILD.bazel", "bazel test //...", "cc_test()\n", daily=(), lies=(("cc_test", "cc_x"),)),
)
EDITS = [
    pytest.param(tool, old, new, is_lie, id=f"{tool.path}: {'lie' if is_lie else 'daily'}: {new[:40]!r}")
    for tool in TOOLS
    for edits, is_lie in ((tool.daily, False), (tool.lies, True))
    for old, new in edits
]


@pytest.mark.parametrize(("tool", "old", "new", "is_lie"), EDITS)
def test_of_a_build_file_counts_what_decides_about_tests(tool: Tool, old: str, new: str, is_lie: bool):
    assert old in tool.text
    after = tool.text.replace(old, new, 1)
    words = frozenset(tool.command.replace("/", " ").split()) | {"nothing"}
    asked = type(ANYTHING)(entries=frozenset({"test"}), goals=frozenset(), environments=frozenset(), words=words)
    assert has_other_settings(tool.path, tool.text.encode(), after.encode(), asked) is is_lie


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool.path}, {tool.command[:20]}")
async def test_an_edited_build_file_is_the_gates_where_the_commands_run_its_tool(tool: Tool, tmp_path: Path):
    [old, new] = tool.lies[0]
    base = {tool.path: tool.text, "calc.x": "x\n"}
    change = {tool.path: tool.text.replace(old, new, 1)}

    assert await edited(tmp_path, base, change, tool.command) == {tool.path}
    (tmp_path / "again").mkdir()
    assert await edited(tmp_path / "again", base, change, tool.command, may_edit=(tool.path,)) == set()
    if tool.path not in READERS:
        (tmp_path / "other").mkdir()
        assert await edited(tmp_path / "other", base, change, "python -m pytest") == set()


TOP = """project(calc)
enable_testing()
add_library(calc calc.c)
add_executable(runner src/main.c)
add_executable(app src/app.c)
target_link_libraries(runner calc)
"""
BUILD = "cmake -S . -B build && cmake --build build && ctest --test-dir build"
ADD = "add_test(NAME twice COMMAND runner)\n"
SWAP = ("src/main.c", "src/other.c")
MORE = ("src/app.c", "src/app.c src/more.c")


@pytest.mark.parametrize(
    ("others", "edit", "is_edited"),
    [
        ({"ci/CMakeLists.txt": ADD}, SWAP, True),
        ({"cmake/testing.cmake": ADD}, SWAP, True),
        ({"ci/CMakeLists.txt": "set(RUN runner)\nadd_test(NAME twice COMMAND ${RUN})\n"}, SWAP, True),
        ({"a.cmake": "set(RUN runner)\n", "b/CMakeLists.txt": "add_test(NAME x COMMAND ${RUN})\n"}, SWAP, True),
        ({"ci/CMakeLists.txt": "add_test(NAME x COMMAND ${CMAKE_BINARY_DIR}/bin/runner)\n"}, SWAP, True),
        ({"ci/CMakeLists.txt": "add_test(NAME x COMMAND $<TARGET_FILE:${X}nner>)\n"}, SWAP, True),
        ({"ci/CMakeLists.txt": "string(TOLOWER RUNNER T)\nadd_test(NAME x COMMAND ${T})\n"}, SWAP, True),
        ({"ci/CMakeLists.txt": "add_custom_target(verify COMMAND runner)\n"}, SWAP, True),
        ({"ci/CMakeLists.txt": "set_target_properties(runner PROPERTIES OUTPUT_NAME x)\n"}, SWAP, True),
        ({"a.cmake": "add_executable(x ALIAS runner)\n", "b.cmake": "add_test(NAME y COMMAND x)\n"}, SWAP, True),
        ({"ci/CMakeLists.txt": "cmake_language(EVAL CODE [[x]])\n"}, SWAP, True),
        ({"ci/CMakeLists.txt": "add_test(x"}, SWAP, True),
        ({"ci/CMakeLists.txt": "include(more.inc)\n", "ci/more.inc": ADD}, SWAP, True),
        ({"ci/CMakeLists.txt": "include(${WHERE})\n"}, SWAP, True),
        ({f"m{n}.cmake": "x(y)\n" * 40_000 for n in range(7)}, SWAP, True),
        ({"ci/CMakeLists.txt": "install(TARGETS runner)\ntarget_link_libraries(runner m)\n"}, SWAP, False),
        ({"ci/CMakeLists.txt": ADD}, MORE, False),
        ({"ci/CMakeLists.txt": ADD}, ("calc.c", "calc.c more.c"), False),
        ({"ci/CMakeLists.txt": "foreach(t ${TESTS})\nadd_test(NAME ${t} COMMAND ${t})\nendforeach()\n"}, MORE, False),
        ({"ci/CMakeLists.txt": "string(TOLOWER A T)\nadd_test(NAME x COMMAND ${T})\n"}, ("calc.c", "d.c"), False),
        ({}, MORE, False),
    ],
)  # fmt: skip
async def test_a_target_is_tested_by_whatever_file_says_so(others, edit, is_edited: bool, tmp_path: Path):
    base = {"CMakeLists.txt": TOP, **others}
    change = {"CMakeLists.txt": TOP.replace(*edit)}
    assert await edited(tmp_path, base, change, BUILD) == ({"CMakeLists.txt"} if is_edited else set())


async def test_a_target_that_a_command_runs_is_tested(tmp_path: Path):
    found = await edited(
        tmp_path, {"CMakeLists.txt": TOP}, {"CMakeLists.txt": TOP.replace(*SWAP)}, f"{BUILD} && build/runner"
    )
    assert found == {"CMakeLists.txt"}


JEST = """const path = require('path')
const shared = require('./shared.js')
module.exports = {
  ...shared,
  setupFilesAfterEnv: ['<rootDir>/support/setup'],  // each file
  testEnvironment: "./env.js", reporters: ['default', './rep.js'],
  moduleNameMapper: {'\\\\.css$': '<rootDir>/mocks/style.js', '^core$': '<rootDir>/src/core.js'},
  roots: ['./src'], collectCoverageFrom: ['src/core.js'], testPathIgnorePatterns: ['other.js'],
}
"""
VITE = """import { defineConfig } from 'vitest/config'
export default defineConfig({
  build: {rollupOptions: {input: './src/main.ts'}, lib: {entry: 'src/core.js'}},
  resolve: {alias: {'@': './src', core: './src/core.js'}},
  test: {setupFiles: ['./setup.ts'], include: ['src/core.js'], environment: 'node'},
})
"""


@pytest.mark.parametrize(
    ("command", "base", "path", "is_edited"),
    [
        ("npx jest", {"jest.config.js": JEST}, "support/setup.ts", True),
        ("npx jest", {"jest.config.js": JEST}, "support/setup/index.js", True),
        ("npx jest", {"jest.config.js": JEST}, "env.js", True),
        ("npx jest", {"jest.config.js": JEST}, "rep.js", True),
        ("npx jest", {"jest.config.js": JEST}, "shared.js", True),
        ("npx jest", {"jest.config.js": JEST, "shared.js": "module.exports = {runner: './run.js'}"}, "run.js", True),
        ("npx jest", {"jest.config.js": JEST}, "mocks/style.js", True),
        ("npx jest", {"jest.config.js": JEST}, "src/core.js", False),
        ("npx jest", {"jest.config.js": JEST}, "src/index.js", False),
        ("npx jest", {"jest.config.js": JEST}, "other.js", False),
        ("npx jest", {"jest.config.js": JEST, "env.js": "require('./src/util.js')"}, "src/util.js", False),
        ("python -m pytest", {"jest.config.js": JEST}, "env.js", False),
        ("npx jest -c conf/jest.e2e.json", {"conf/jest.e2e.json": '{"runner": "./run.js"}'}, "conf/run.js", True),
        ("node check.js", {"check.js": "require('./core.js')"}, "core.js", False),
        ("npx jest", {"jest.config.js": JEST}, "__mocks__/chai.js", False),  # a test
        ("npx vitest run", {"web/vite.config.ts": VITE}, "web/setup.ts", True),
        ("npx vitest run", {"web/vite.config.ts": VITE}, "web/src/main.ts", False),
        ("npx vitest run", {"web/vite.config.ts": VITE}, "web/src/core.js", False),
        ("npx vitest run", {"web/vite.config.ts": VITE}, "web/src/index.ts", False),
        ("npx mocha", {".mocharc.json": '{"require": "./helper.js", "spec": "a.js"}'}, "helper.js", True),
        ("npx mocha", {".mocharc.json": '{"require": "./helper.js", "spec": "a.js"}'}, "a.js", False),
        ("npx mocha", {".mocharc.yml": "spec: a.js\nrequire:\n  - ./helper.js\n"}, "helper.js", True),
        ("npx mocha", {".mocharc.yml": "spec: a.js\nrequire:\n  - ./helper.js\n"}, "a.js", False),
        ("npm test", {"package.json": '{"ava": {"require": ["./reg.js"]}, "main": "./a.js"}'}, "reg.js", True),
        ("npm test", {"package.json": '{"ava": {"require": ["./reg.js"]}, "main": "./a.js"}'}, "a.js", False),
        ("npx jest", {"tsconfig.json": '{"extends": "./conf/base.json", "files": ["a.ts"]}'}, "conf/base.json", True),
        ("npx jest", {"tsconfig.json": '{"extends": "./conf/base.json", "files": ["a.ts"]}'}, "a.ts", False),
        ("bun test", {"bunfig.toml": '[test]\npreload = ["./pre.ts"]\n'}, "pre.ts", True),
        ("vendor/bin/phpunit", {"phpunit.xml": '<phpunit bootstrap="boot.php"/>'}, "boot.php", True),
        ("bundle exec rspec", {".rspec": "--require helper\n"}, "lib/helper.rb", True),
        ("cargo nextest run", {"nextest.toml": "[script.a]\ncommand = './prepare.py'\n"}, "prepare.py", True),
        ("cargo test", {"Cargo.toml": '[package]\nbuild = "made.rs"\n'}, "made.rs", True),
        ("cargo test", {"Cargo.toml": "[package]\n"}, "build.rs", True),
        ("cargo test", {"Cargo.toml": "[package]\n"}, "src/build.rs", False),
        ("ctest", {"CMakeLists.txt": "add_test(NAME a COMMAND ${CMAKE_SOURCE_DIR}/run.sh)"}, "run.sh", True),
        ("ctest", {"CMakeLists.txt": "include(cmake/some.inc)"}, "cmake/some.inc", True),
        ("ctest", {"CMakeLists.txt": "my_add_test(a src/core.c)"}, "src/core.c", False),
        ("rake test", {}, "lib/tasks/a.rake", True),
        ("cmake -B build && ctest", {}, "build/CMakeCache.txt", True),
        ("python -m pytest", {"pytest.ini": "[pytest]\naddopts = --cov-config=ci/cov.ini\n"}, "ci/cov.ini", True),
        ("python -m pytest", {"pytest.ini": "[pytest]\naddopts = @ci/more.txt\n"}, "ci/more.txt", True),
        ("python -m pytest", {"pytest.ini": "[pytest]\naddopts = --doctest-modules a.py\n"}, "a.py", False),
        ("PYTEST_PLUGINS=calc.plug pytest", {}, "calc/plug.py", True),
        ("npx mocha", {"p/web/.mocharc.yml": "require: ./a.js", **{f"p/{n}/package.json": "{}" for n in range(220)}},
         "p/web/a.js", True),
        ("gradle test", {"gradlew": "x"}, "gradle/wrapper/gradle-wrapper.properties", True),
        ("go test ./...", {"api/go.mod": "module a\n"}, "api/vendor/x/y.go", True),
        ("go test ./...", {"api/go.mod": "module a\n"}, "api/shop/vendor/y.go", False),
        ("npm test", {"package.json": "{}"}, "patches/chai+5.0.0.patch", True),
        ("npm test", {"package.json": "{}"}, "node_modules/chai/package.json", True),
        ("yarn test", {"package.json": "{}"}, ".yarn/releases/yarn.cjs", True),
        ("gradle test", {"settings.gradle.kts": ""}, "buildSrc/src/main/kotlin/a.kt", True),
        ("go test ./...", {"go.mod": "module a\n"}, "shop/go.mod", True),
        ("npx vitest", {"tsconfig.json": "{}"}, "shop/tsconfig.json", True),
        ("ctest", {"CMakeLists.txt": ""}, "tests/CMakeLists.txt", False),  # a test: judged with the base's own
        ("python -m pytest", {"pytest.ini": "[pytest]\naddopts = -p calc.plug\n"}, "calc/plug.py", True),
        ("python -m pytest", {"pytest.ini": "[pytest]\naddopts = -p no:calc\n"}, "calc.py", False),
        ("mkdir -p calc && python -m unittest", {}, "calc.py", False),
        ("python manage.py test -v 2", {"manage.py": "import os"}, "shop/management/commands/test.py", True),
        ("python manage.py test -v 2", {"manage.py": "import os"}, "shop/management/commands/load.py", False),
    ],
)  # fmt: skip
async def test_what_a_runner_loads_is_the_gates(command, base, path: str, is_edited: bool, tmp_path: Path):
    base = {"README": "x\n", path: "// x\n" if "json" not in path else "{}", **base}
    if path.endswith(("go.mod", "tsconfig.json", "CMakeLists.txt", "build.rs")):
        base.pop(path)

    found = await edited(tmp_path, base, {path: "# y\n"}, command)

    assert (path in found) is is_edited


@pytest.mark.parametrize("new", ["notes.txt", "sub/go.work", "-> package.json", "-> go.mod"])
async def test_a_build_file_that_is_moved_or_a_link_counts(new: str, tmp_path: Path):
    git(tmp_path, "init", "-q")
    write(tmp_path, {"go.work": "use .\n" * 20, "sub/a": ""})
    if new.startswith("->"):
        (tmp_path / new[3:]).symlink_to("sub/a")
    else:
        (tmp_path / "go.work").rename(tmp_path / new)
    write(tmp_path, {})
    trees = Trees(Mirror(tmp_path / ".git"), "HEAD^", "HEAD")
    diff = git(tmp_path, "diff", "-p", "-M", "--binary", "--full-index", "HEAD^", "HEAD")
    found = await inspect(
        diff, trees, commands=["go test && npm test"], subpath="", rules=GateRules(), scope=("edit:**",)
    )
    assert [one.code for one in found.objections] == ["gate_edited"]


@pytest.mark.parametrize(
    ("other", "is_edited"),
    [
        ({"ci/CMakeLists.txt": "add_test(NAME twice COMMAND runner)"}, True),
        ({"cmake/testing.cmake": "foreach(one runner)\nadd_test(NAME ${one} COMMAND ${one})\nendforeach()"}, True),
        ({"ci/CMakeLists.txt": "add_test("}, True),
        ({"ci/CMakeLists.txt": "add_test(NAME twice COMMAND unit)\ntarget_link_libraries(unit runner)"}, False),
    ],
)
async def test_a_target_that_another_file_of_cmake_runs_is_the_gates(other, is_edited: bool, tmp_path: Path):
    base = {"CMakeLists.txt": "add_executable(runner main.c)\n", **other}
    change = {"CMakeLists.txt": "add_executable(runner other.c)\n"}
    assert await edited(tmp_path, base, change, "ctest") == ({"CMakeLists.txt"} if is_edited else set())


@pytest.mark.parametrize(
    ("command", "path", "is_edited"),
    [
        ("make test", "Makefile.sh", True),
        ("make test", "shop/core.py.sh", True),
        ("make test", "shop/s.core.py", True),
        ("make test", "shop/RCS/core.py,v", True),
        ("make test", "shop/core.py.md", False),
        ("make test", "shop/other.sh", False),
        ("python -m pytest", "shop/core.py.sh", False),
    ],
)
async def test_what_make_would_make_a_file_of_is_the_gates(command: str, path: str, is_edited: bool, tmp_path: Path):
    base = {"Makefile": "test: shop/core.py\n\tpytest\n", "shop/core.py": ""}
    assert await edited(tmp_path, base, {path: "x\n"}, command) == ({path} if is_edited else set())


PYTEST, ADDOPTS = "python -m pytest", "[pytest]\naddopts = -k x\n"


@pytest.mark.parametrize(
    ("command", "base", "change", "named"),
    [
        # a link, or what is none any more, in the place of settings
        (PYTEST, {"setup.cfg": "[metadata]\n"}, {"setup.cfg": "-> notes/told"}, {"setup.cfg"}),
        (PYTEST, {"pyproject.toml": ""}, {"pyproject.toml": "-> notes/told"}, {"pyproject.toml"}),
        (PYTEST, {}, {"tox.ini": "-> notes/told"}, {"tox.ini"}),
        (PYTEST, {"tox.ini": "-> a", "b": ""}, {"tox.ini": "-> b"}, {"tox.ini"}),
        (PYTEST, {"tox.ini": "-> a"}, {"tox.ini": "[tox]\n"}, {"tox.ini"}),
        (PYTEST, {"go.mod": "go 1.22\n"}, {"go.mod": "-> notes/told"}, set()),
        (PYTEST, {"README": "-> a"}, {"README": "-> b"}, set()),
        # what the base's own links lead to
        (PYTEST, {"tox.ini": "-> conf/all", "conf/all": ""}, {"conf/all": ADDOPTS}, {"conf/all"}),
        (PYTEST, {"tox.ini": "-> a", "a": "-> b", "b": ""}, {"b": ADDOPTS}, {"b"}),
        (PYTEST, {"tox.ini": "-> conf/all", "conf/all": ""}, {"conf/all": "[gh-actions]\n"}, set()),
        ("make test", {"Makefile": "-> a", "a": "test:\n\tx\n"}, {"a": "test:\n\ty\n"}, {"a"}),
        ("make test", {"Makefile": "-> a", "a": "test:\n\tx\n"}, {"a": "test:\n\tx\ndocs:\n\ty\n"}, set()),
        ("make test", {"Makefile": "-> a", "a": "test:\n\tsh c.sh\n", "c.sh": "x"}, {"c.sh": "y"}, {"c.sh"}),
        ("python check", {"check": "-> a.py", "a.py": ""}, {"a.py": "x"}, {"a.py"}),
        ("sh ci/all.sh", {"ci": "-> dev", "dev/all.sh": ". ./b.sh", "dev/b.sh": "x"}, {"dev/b.sh": "y"}, {"dev/b.sh"}),
        ("ruff check", {"ruff.toml": "-> a", "a": ""}, {"a": "x = 1"}, {"a"}),
        (PYTEST, {"ruff.toml": "-> a", "a": ""}, {"a": "x = 1"}, set()),
        ("sh self/a.sh", {"self": "-> .", "a.sh": "x"}, {"a.sh": "y"}, {"a.sh"}),
        (PYTEST, {"docs/AGENTS.md": "-> ../AGENTS.md", "AGENTS.md": ""}, {"AGENTS.md": "x"}, set()),
    ],
)  # fmt: skip
async def test_a_link_is_no_way_around_settings_and_scripts(command, base, change, named, tmp_path: Path):
    assert await edited(tmp_path, {"notes/told": "", **base}, change, command) == named


async def test_very_many_links_take_no_time(tmp_path: Path):
    base = {f"d/{n}": "" for n in range(500)} | {f"l{n}": "-> d" for n in range(500)}
    started = time.process_time()
    assert await edited(tmp_path, base, {f"d/{n}": "x" for n in range(500)}, PYTEST) == set()
    assert time.process_time() - started < 2


CHECKED = {
    "codespell": ".codespellrc", "isort": ".isort.cfg", "bandit": ".bandit", "typos": "_typos.toml",
    "shellcheck": ".shellcheckrc", "rubocop": ".rubocop.yml", "npx eslint": ".eslintignore",
    "npx biome ci": "biome.jsonc", "stylelint": ".stylelintrc", "npx prettier --check": ".prettierignore",
    "yapf": ".style.yapf", "clang-tidy": ".clang-tidy", "phpstan": "phpstan.neon.dist", "pylint": "pylintrc.toml",
    "python -m pydocstyle": ".pydocstylerc", "pycodestyle": ".pycodestyle", "yamllint": ".yamllint.yml",
    "markdownlint-cli2": ".markdownlint.json", "ansible-lint": ".ansible-lint", "hadolint": ".hadolint.yaml",
    "jshint": ".jshintrc", "swiftlint": ".swiftlint.yml", "scalafmt": ".scalafmt.conf",
    "mvn verify": "config/checkstyle.xml", "gradle check": "config/detekt/detekt.yml", "luacheck": ".luacheckrc",
    "golangci-lint run": "golangci.yml", "mix credo": ".credo.exs", "mypy": ".mypy.ini", "semgrep": ".semgrepignore",
    "npx commitlint": "commitlint.config.js", "npx knip": "knip.json", "dprint": "dprint.json",
    "oxlint": ".oxlintrc.json", "sqlfluff": ".sqlfluff", "djlint": ".djlintrc", "vale": "vale.ini",
    "lychee": "lychee.toml", "npx cspell": "cspell.json", "cargo fmt --check": "rustfmt.toml",
    "clang-format": "src/.clang-format", "hatch test": "hatch.toml", "task test": "Taskfile.dist.yml",
    "rake": "rakefile", "tox": "tox.toml", "poe test": "poe_tasks.toml", "./tools/speller --all": "conf/speller.yaml",
}  # fmt: skip
FREE = (
    ("ruff check . && npm test", ".npmignore"),
    ("git diff --exit-code && python -m pytest", ".gitignore"),
    ("python -m pytest", ".python-version"),
    ("docker build . && python -m pytest", ".dockerignore"),
    ("black --check . && python -m pytest", "themes/black.json"),
    ("black --check . && python -m pytest", "docs/black.md"),
    ("black --check . && python -m pytest", "shop/black.py"),
    ("black --check . && python -m pytest", "tests/data/black.toml"),
    ("node --test", ".node-version"),
    ("go test ./...", ".goreleaser.yml"),
    ("hatch test", "mkdocs.yml"),
    ("ruff check . && python -m pytest", "config/shop.yaml"),
    *(("python -m pytest", name) for name in (
        ".gitattributes", ".mailmap", ".editorconfig", ".readthedocs.yaml", ".gitlab-ci.yml", ".bumpversion.cfg",
        ".codecov.yml", ".env.example", ".DS_Store", "uv.lock", "requirements.txt",
        "MANIFEST.in", "Dockerfile", "VERSION",
        "LICENSE", "data.csv", "logo.svg", "app.py", "shop/unittest.cfg", "shop/data.edn", "shop/.hidden", "data.json",
        "docker-compose.yml", "tailwind.config.js", "shop/app.conf", "next.config.js", "bin/add", "book.toml",
    )),
    ("npm test", "tailwind.config.js"),
    ("npm test", ".nvmrc"),
    ("cd web && npm test", "api/nest.config.ts"),
)  # fmt: skip
# No program is known to read them: whoever lies where a gate's commands run may be somebody's settings.
UNPLACED = (
    *(("python -m pytest", name) for name in (
        "unittest.cfg", ".testr.conf", "behave.ini", "blackjack.toml", ".reuse.cfg", ".spell-it.d.toml", "Guardfile",
        "deps.edn", ".env.test", ".gitmodules", "uv.toml", "toxfile.py", ".config/runner.kdl",
    )),
    ("npx wdio", "wdio.conf.ts"),
    ("npm test", "svelte.config.js"),
    ("cd web && npm test", "web/nightwatch.conf.js"),
    ("make -C sub test", "sub/runner.toml"),
    ("cd $WHERE && python -m pytest", "shop/unittest.cfg"),
)  # fmt: skip


@pytest.fixture(scope="module")
def all_settings(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Trees]:
    """Each file is edited."""
    root = tmp_path_factory.mktemp("settings")
    git(root, "init", "-q")
    paths = {*CHECKED.values(), *(path for _, path in (*FREE, *UNPLACED))}
    for text in ("x = 1\n", "x = 2\n"):
        write(root, dict.fromkeys(paths, text))
    diff = git(root, "diff", "-p", "-M", "--binary", "--full-index", "HEAD^", "HEAD")
    return diff, Trees(Mirror(root / ".git"), "HEAD^", "HEAD")


async def counting(all_settings: tuple[bytes, Trees], command: str, path: str = "") -> set[str]:
    diff, trees = all_settings
    part = without(diff, lambda part: path not in ("", part.path))[0]
    found = await inspect(part, trees, commands=[command], subpath="", rules=GateRules(), scope=("edit:**",))
    return {name for one in found.objections for name in one.names}


@pytest.mark.parametrize("command", CHECKED)
async def test_settings_of_a_checker_count_where_it_is_run(command: str, all_settings):
    path = CHECKED[command]
    assert await counting(all_settings, f"{command} && python -m pytest -q", path) == {path}


async def test_settings_of_checkers_that_nobody_runs_are_free(all_settings):
    unplaced = {path for command, path in UNPLACED if command == "python -m pytest"}
    assert await counting(all_settings, "python -m pytest -q") == unplaced


@pytest.mark.parametrize(("command", "path"), FREE)
async def test_what_is_only_called_like_settings_is_free(command: str, path: str, all_settings):
    assert await counting(all_settings, command, path) == set()


@pytest.mark.parametrize(("command", "path"), UNPLACED)
async def test_what_may_be_settings_counts_where_the_commands_run(command: str, path: str, all_settings):
    assert await counting(all_settings, command, path) == {path}


@pytest.mark.parametrize("path", [".rspec-local", "phpunit.dist.xml"])
def test_settings_of_runners_count(path: str):
    assert is_gate_file(path)


POM_BUMP = "-<version>4.13.1</version>\n+<version>4.13.2</version>\n"


@pytest.mark.parametrize(
    ("command", "path", "lines", "is_edited"),
    [
        ("mvn -q test", "pom.xml", POM_BUMP, False),
        ("mvn -q test", "pom.xml", "-<minimum>0.80</minimum>\n+<minimum>0.10</minimum>\n", True),
        ("mvn -q test", "pom.xml", "-<skip>0</skip>\n+<skip>1</skip>\n", True),
        ("mvn -q test", "pom.xml", "+<version>4.13.2</version>\n", True),
        ("go test ./...", "go.mod", "-\tx/y v1.8\n+\tx/y v1.9\n", False),
        ("go test ./...", "go.mod", "-\tx/y v1.8\n+\tx/z v1.8\n", True),
        ("python -m pytest", "web/tsconfig.json", '-"strict": 0\n+"strict": 1\n', False),
        ("make test", "CMakeLists.txt", "-a\n+b\n", True),
        ("sh ci.sh", "pom.xml", "-a\n+b\n", True),
        ("mvn test", "tests/pom.xml", "-a\n+b\n", False),
    ],
)
async def test_where_no_file_can_be_read_an_edit_of_more_than_versions_counts(command, path, lines, is_edited: bool):
    old, new = (sum(line.startswith(sign) for line in lines.split("\n")) for sign in "-+")
    ids = "index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644"
    head = f"diff --git a/{path} b/{path}\n{ids}\n--- a/{path}\n+++ b/{path}\n@@ -1,{old} +1,{new} @@\n"

    found = await inspect(
        (head + lines).encode(),
        Trees(None, "", ""),
        commands=[command],
        subpath="",
        rules=GateRules(),
        scope=("edit:**",),
    )

    assert bool(found.objections) is is_edited


NAMES = [*READERS, *(name.replace("*", "x") for one in BUILD_FILES for name in one.names), "x.csproj"]


@pytest.mark.parametrize(
    "text",
    [
        '"' + "\\\"" * 60_000, "/*" * 60_000, "[[" * 60_000, "#[==[" * 30_000, "(" * 100_000, "{" * 100_000,
        "<a>" * 40_000, "a:1 " * 30_000, "gem 'a'," * 15_000, "'a', " * 30_000, "require (\n" * 12_000, ", " * 60_000,
        "a = 1\n" * 20_000, "${a}" * 30_000, "-p " * 40_000, "<a b='" * 20_000, "set(A a.c)\n" * 10_000,
        "addopts" * 15_000, "addopts\n " * 12_000, "implementation('" * 8_000, "a" * 120_000, "test" * 30_000,
        "".join(f"set(A{n} ${{B{n}}})\n" for n in range(10_000)),
        "".join(f"[target.a{n}.dependencies]\nx = {{path = 'a'}}\n" for n in range(4_000)),
        '{"imports": {' + ", ".join(f'"a{n}": "jsr:a{n}"' for n in range(8_000)) + "}}",
        "<a>" + "<b/>" * 30_000 + "</a>", " " * 120_000, "\\" * 120_000, "$(X) \\\n" * 20_000,
    ],
    ids=range(29),
)  # fmt: skip
def test_hostile_build_files_take_no_time(text: str):
    started = time.process_time()
    for name in NAMES:
        has_other_settings(name, text.encode(), text.encode() + b"x", ANYTHING)
    for name in ("jest.config.js", ".mocharc.yml", "bunfig.toml", ".rspec"):
        literals(name, text)
    assert time.process_time() - started < 8
