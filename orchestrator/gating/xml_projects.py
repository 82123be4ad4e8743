"""What of Maven's and MSBuild's files counts for tests. Pure; bounded, whoever has written them."""

from __future__ import annotations

import re
import xml.parsers.expat
from dataclasses import dataclass, field

from .names import is_test_file

MAX_XML_DEPTH = 100  # nobody writes more
MAX_XML_ELEMENTS = 20_000


@dataclass(slots=True)
class _Element:
    name: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    children: list[_Element] = field(default_factory=list["_Element"])
    text: list[str] = field(default_factory=list[str])

    def text_of(self, name: str) -> str:
        return next(("".join(one.text).strip() for one in self.children if one.name == name), "")

    def as_value(self) -> object:
        return self.name, self.attributes, "".join(self.text).split(), [one.as_value() for one in self.children]


def _xml(text: str) -> _Element:
    """`ValueError` for what is none, or has a document type: entities may grow without a bound."""
    top = _Element("")
    within, count = [top], 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(within) > MAX_XML_DEPTH or count > MAX_XML_ELEMENTS:
            raise ValueError("more than anybody writes")
        within[-1].children.append(element := _Element(name, attributes))
        within.append(element)

    def refuse(*_: object) -> None:
        raise ValueError("a document type")

    parser = xml.parsers.expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, lambda _: within.pop()
    parser.CharacterDataHandler = lambda said: within[-1].text.append(said)
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text.encode(), True)
    except xml.parsers.expat.ExpatError as e:
        raise ValueError("no XML") from e
    return top.children[0]


_ABOUT_PROJECT = frozenset(
    (
        *("version", "name", "description", "url", "licenses", "developers", "contributors", "scm", "organization"),
        *("issueManagement", "ciManagement", "distributionManagement", "inceptionYear", "mailingLists"),
    )
)
_VERSION_KEY = re.compile(r"(?i:[\w.-]*version)|revision")
_VERSION = re.compile(r"\d[\w.+-]*")


def pom(text: str) -> object:
    """Comparable: all but versions, what is told about the project, and dependencies from registries."""
    project = _xml(text)
    project.children = [one for one in project.children if one.name not in _ABOUT_PROJECT]
    for part in project.children:
        if part.name == "parent":
            part.children = [one for one in part.children if one.name != "version"]
        elif part.name == "properties":
            part.children = [
                one
                for one in part.children
                if not (_VERSION_KEY.fullmatch(one.name) and _VERSION.fullmatch("".join(one.text).strip()))
            ]
        elif part.name == "dependencies":
            _without_versions(part)
        elif part.name == "dependencyManagement":
            for inner in part.children:
                _without_versions(inner)
    return project.as_value()


def _without_versions(dependencies: _Element) -> None:
    """Of those for tests the version, of the others all: they come from a registry."""
    daily = ("", "compile", "runtime", "provided")
    kept = [one for one in dependencies.children if one.text_of("scope") not in daily or one.text_of("systemPath")]
    for one in kept:
        one.children = [part for part in one.children if part.name != "version"]
    dependencies.children = kept


_ABOUT_PACKAGE = frozenset(
    (
        *("Version", "VersionPrefix", "VersionSuffix", "PackageVersion", "AssemblyVersion", "FileVersion", "Authors"),
        *("InformationalVersion", "Description", "PackageTags", "PackageReleaseNotes", "Copyright", "Company"),
        *("PackageProjectUrl", "RepositoryUrl", "Title", "Product", "PackageLicenseExpression", "PackageIcon"),
    )
)
_OF_REFERENCES = frozenset(("Include", "Version", "PrivateAssets", "IncludeAssets", "ExcludeAssets"))


def csproj(text: str) -> object:
    """Comparable, of a project of MSBuild, or of what it imports: all but packages from the registry, sources of the
    product's, and what is told about the package."""
    project = _xml(text)
    is_of_tests = "Microsoft.NET.Test.Sdk" in text or "IsTestProject" in text
    for group in project.children:
        if group.name == "PropertyGroup":
            group.children = [one for one in group.children if one.name not in _ABOUT_PACKAGE]
        elif group.name == "ItemGroup":
            group.children = [one for one in group.children if not _is_daily(one, is_of_tests=is_of_tests)]
    groups = ("PropertyGroup", "ItemGroup")
    project.children = [one for one in project.children if one.name not in groups or one.children or one.attributes]
    return project.as_value()


def _is_daily(item: _Element, *, is_of_tests: bool) -> bool:
    """A package from the registry; a source file of the product's, which F# has to be told."""
    own = item.attributes.get("Include", "")
    if item.name in ("PackageReference", "PackageVersion"):
        values = (*item.attributes.values(), *("".join(one.text) for one in item.children))
        return (
            bool(own)
            and not any("$([" in value for value in values)
            and _OF_REFERENCES.issuperset({*item.attributes, *(one.name for one in item.children)})
        )
    is_source = re.fullmatch(r"[\w./\\-]+\.(?:fs|fsi|cs|vb)", own) is not None
    is_plain = item.name == "Compile" and set(item.attributes) == {"Include"} and not item.children
    return is_plain and is_source and not is_of_tests and not is_test_file(own.replace("\\", "/"))
