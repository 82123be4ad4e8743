"""Work that builds on other work comes together: each piece was made on top of those that it started from.

Unlike `merge.py`, whose patches all are against one base. All on objects: no work tree, no order but the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .errors import PatchRefused
from .merge_attributes import changed_on_both, guarded_on_both, refusal
from .merge_entities import Reader, two_meanings
from .merge_tree import Allowed, changed_paths, merge_trees, strayed
from .mirror import Mirror
from .patch import apply_to_index
from .scratch import Scratch, scratch
from .wording import as_text


@dataclass(frozen=True, slots=True)
class Piece:
    """`diff` is against the state of `after`, the pieces that it started from: all of them, in their order.
    `allowed`: what whoever made it may edit; None is anything."""

    key: str
    title: str
    diff: bytes
    after: tuple[str, ...] = ()
    allowed: Allowed | None = None


@dataclass(frozen=True, slots=True)
class Clash:
    """The piece `key` does not fit beside `others`. None of these: it does not even fit onto what it started from."""

    key: str
    others: tuple[str, ...]
    paths: tuple[str, ...]
    detail: str


@dataclass(slots=True)
class Weave:
    """The states that pieces make on one base. The same pieces give the same commits, on any machine and day."""

    mirror: Mirror
    base: str
    _pieces: dict[str, Piece] = field(default_factory=dict[str, Piece])
    _commits: dict[str, str] = field(default_factory=dict[str, str])
    _paths: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _states: dict[tuple[str, ...], str | Clash] = field(default_factory=dict[tuple[str, ...], str | Clash])
    _dates: dict[str, str] = field(default_factory=dict[str, str])

    async def add(self, piece: Piece) -> Clash | None:
        """Make it known; what it started from is. A piece that fits not even there is a clash, and stays unknown."""
        if piece.key in self._pieces:
            return None
        start = await self.state(piece.after)
        if isinstance(start, Clash):
            return start
        with scratch(write_to=self.mirror.objects) as own:
            await own.git("read-tree", start)
            try:
                await apply_to_index(own, piece.diff) if piece.diff else None
            except PatchRefused as e:
                return Clash(piece.key, (), (), str(e))
            tree = (await own.git("write-tree")).line
            commit = await self._commit(own, tree, piece.title or piece.key, start)
            listed = await own.git("diff-tree", "-r", "-z", "--no-renames", "--name-only", start, commit)
        self._pieces[piece.key], self._commits[piece.key] = piece, commit
        self._paths[piece.key] = frozenset(as_text(name) for name in listed.fields)
        return None

    def paths(self, key: str) -> frozenset[str]:
        """What a piece really changes, both sides of a rename."""
        return self._paths[key]

    async def state(self, keys: Sequence[str]) -> str | Clash:
        """The commit with all these pieces, in this order, each with what it started from; or the first clash."""
        known = self._states.get(tuple(keys))
        if known is None:
            known = self._states[tuple(keys)] = await self._woven(keys)
        return known

    async def _woven(self, keys: Sequence[str]) -> str | Clash:
        if not keys:
            return await self.mirror.resolve(self.base)
        *earlier, last = keys
        tip = await self.state(earlier)
        if isinstance(tip, Clash):
            return tip
        if self._pieces[last].after == tuple(earlier):
            return self._commits[last]
        with scratch(write_to=self.mirror.objects) as own:
            theirs = self._commits[last]
            base = (await own.git("merge-base", tip, theirs)).line
            if shut := await guarded_on_both(own, base, tip, theirs):
                return self._clash(last, earlier, shut, refusal(shut))
            merged = await merge_trees(own, tip, theirs)
            if not merged.clean:
                return self._clash(last, earlier, merged.paths, merged.detail)
            both = await changed_on_both(own, base, tip, theirs)
            async with Reader(own) as reader:
                wrong = await reader.contradicted((base, tip, theirs, merged.tree), both)
            if wrong:
                paths = tuple(sorted(as_text(path) for path in wrong))
                return self._clash(last, earlier, paths, two_meanings(paths))
            changed = await changed_paths(own, tip, merged.tree)
            if astray := await strayed(own, base, tip, changed, self._pieces[last].allowed):
                return self._clash(last, earlier, astray.paths, astray.detail)
            return await self._commit(own, merged.tree, f"with {self._pieces[last].title or last}", tip, theirs)

    def _clash(self, key: str, earlier: Sequence[str], paths: tuple[str, ...], detail: str) -> Clash:
        beside = [other for other in earlier if other not in self._pieces[key].after]
        sharing = [other for other in beside if self._paths[other] & (set(paths) | self._paths[key])]
        return Clash(key, tuple(sharing or beside), paths, detail)

    async def _commit(self, own: Scratch, tree: str, title: str, *parents: str) -> str:
        if not self._dates:
            date = f"@{(await own.git('log', '-1', '--format=%ct', await self.mirror.resolve(self.base))).line} +0000"
            self._dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        message = " ".join(title.replace("\0", " ").split()).encode("utf-8", "backslashreplace") + b"\n"
        named = [word for parent in parents for word in ("-p", parent)]
        return (await own.git("commit-tree", tree, *named, stdin=message, env=self._dates)).line
