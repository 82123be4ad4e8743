"""Print what is in the image that this runs in: a bill of materials in CycloneDX, of Python's and of Debian's packages.

    python bill.py NAME:TAG

Standard library alone. Serial number and time are left out, so that the same image has the same bill.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

DPKG = Path("/var/lib/dpkg/status")


def python_component(distribution: Distribution) -> dict[str, Any]:
    about = distribution.metadata
    name, version = about["Name"].lower().replace("_", "-").replace(".", "-"), distribution.version
    return {
        "type": "library",
        "bom-ref": f"pypi:{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{quote(name)}@{quote(version)}",
        **licence(about.get("License-Expression"), about.get("License")),
    }


def licence(expression: str | None, text: str | None) -> dict[str, Any]:
    """`text` is what older packages write: a name, or the whole licence, of which nothing here is the judge."""
    if expression:
        return {"licenses": [{"expression": expression}]}
    if text and len(text) < 100 and "\n" not in text:
        return {"licenses": [{"license": {"name": text}}]}
    return {}


def debian_components(status: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for paragraph in status.split("\n\n"):
        said = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and not line.startswith(" "))
        if said.get("Status", "").endswith(" installed"):
            name, version, machine = said["Package"], said["Version"], said["Architecture"]
            purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={machine}&distro=bookworm"
            ref = f"deb:{name}@{version}:{machine}"
            found.append({"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": purl})
    return found


def bill(image: str) -> dict[str, Any]:
    name, _, version = image.partition(":")
    components = [python_component(one) for one in distributions()] + debian_components(DPKG.read_text())
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": image, "name": name, "version": version}},
        "components": sorted(components, key=lambda component: component["bom-ref"]),
    }


if __name__ == "__main__":
    print(json.dumps(bill(sys.argv[1]), indent=1))
