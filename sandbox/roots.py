"""What a bubblewrap sandbox can have as its image: this host's own programs, a folder, or a folder with what a setup
phase has added to it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from repo.keeping import Kept
from repo.removal import remove_tree
from repo.weight import sizes_bytes

from .base import Finding
from .errors import ImageMissing, SandboxError
from .image import CC_IMAGE, DEFAULT_IMAGE, OWN_IMAGES
from .namespace import HOST_PARTS, ROOT_PARTS, Root

HOST = "host"
ROOT = "root"  # the folder of a sandbox that has a root of several layers
HINT = (
    "name in MUSTER_IMAGE a folder that holds a root file system with python3, or `host`: this machine's own programs"
)

BUILD_CC = "run `muster sandbox build --driver bubblewrap --variant cc`"


@dataclass(frozen=True, slots=True)
class Roots:
    """`kept_in` holds what setups have added: for each, the layer `upper`, and the file `base` that names what it lies
    on. `sandboxes` holds the folders of open sandboxes."""

    kept_in: Path
    sandboxes: Path
    built: Path  # roots that `muster sandbox build` has made, by the names of the images that they stand for
    hint: str = HINT

    def layers(self, image: str) -> list[Path]:
        """Folders that lie over each other, topmost first; `ImageMissing` when one is not there."""
        if image in OWN_IMAGES and (built := self.root_of(image)).is_dir():
            return [built]
        if image == CC_IMAGE:
            raise ImageMissing(f"There is no image {image} here.", hint=BUILD_CC)
        if image in (HOST, DEFAULT_IMAGE):  # who named no image, and has built none, has this host
            return [Path("/")]
        layer = self._layer(image)
        if layer.is_dir():
            return [layer / "upper", *self.layers((layer / "base").read_text())]
        root = Path(image)
        if not root.is_absolute() or not (root / "usr").is_dir():
            raise ImageMissing(f"There is no image {image} here.", hint=HINT)
        if not root.stat().st_mode & stat.S_IXOTH:
            raise SandboxError(f"Nobody special may look into the image {image}.", hint=f"chmod 755 {image}")
        return [root]

    def report(self) -> Finding:
        root = self.layers(DEFAULT_IMAGE)[0]
        if root != Path("/"):
            return Finding("root", str(root))
        hint = "`muster sandbox build --driver bubblewrap` makes a root of its own, which setup commands can add to"
        return Finding("root", "this machine's own programs, read-only, where no image is named", hint)

    def root_of(self, image: str) -> Path:
        """Where the one stands that was built for this image, or would."""
        return self.built / quote(image, safe="")

    def root(self, image: str, mounted: Path) -> Root:
        """`mounted`: where the layers lie over each other; this host's own do not."""
        layers = self.layers(image)
        return Root(layers[0], HOST_PARTS) if layers == [Path("/")] else Root(mounted, ROOT_PARTS)

    async def image_id(self, image: str) -> str | None:
        """Changes when the folder at the bottom is another one. None when there is no such image."""
        try:
            layers = self.layers(image)
        except ImageMissing:
            return None
        bottom = layers[-1].stat()
        return hashlib.sha256(repr((image, bottom.st_ino, bottom.st_mtime_ns)).encode()).hexdigest()

    async def commit(self, name: str, image: str) -> None:
        """Keep as `image` the layer that lies in the folder of the sandbox `name`."""
        part = self._layer(image).with_suffix(".part")
        with suppress(FileNotFoundError):
            remove_tree(part)
        part.mkdir(parents=True)
        added = self.sandboxes / name / ROOT
        shutil.copy(added / "base", part / "base")
        (added / "upper").rename(part / "upper")
        with suppress(FileNotFoundError):
            remove_tree(self._layer(image))
        part.rename(self._layer(image))

    async def stamp(self, image: str) -> None:
        os.utime(self._layer(image) / "base")

    async def kept(self, names: str) -> list[Kept]:
        layers = [path for path in self.kept_in.glob(quote(names, safe="*")) if (path / "base").exists()]
        sizes = await sizes_bytes(layers)
        return [Kept(unquote(path.name), sizes.get(path, 0), (path / "base").stat().st_mtime) for path in layers]

    async def discard(self, image: str) -> bool:
        """An open sandbox says in its folder what its root lies on."""
        if image in {base.read_text() for base in self.sandboxes.glob(f"*/{ROOT}/base")}:
            return False
        gone = self._layer(image).with_suffix(".part")
        self._layer(image).rename(gone)
        with suppress(OSError):  # the rest goes when it is made anew
            await asyncio.to_thread(remove_tree, gone)
        return True

    def _layer(self, image: str) -> Path:
        return self.kept_in / quote(image, safe="")
