"""From a request's `workspace` to a sandbox that can be opened: mirror, checkout, setup image, changes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from envelope.ids import digest_of
from envelope.messages import Workspace
from envelope.reach import credentials_of, hosts_of
from envelope.scope import Scope
from repo.bundle import bundle
from repo.cache import Use, lock_of, room_for
from repo.checkout import checkout
from repo.lock import file_lock
from repo.mirror import Mirror, mirror_of
from repo.public import pinned_to_public
from repo.weight import MAX_REPOSITORY_BYTES, NOTHING, Weight
from sandbox.base import Limits, SandboxDriver, SandboxSpec, Setup, SetupLimits
from sandbox.outlet import Outlet, Tell, tell_nobody
from sandbox.uids import AGENT_GID, AGENT_UID
from transport.blobs.base import Blobs
from transport.blobs.owners import acting_tenant
from transport.state_folder import private_folder

from ..errors import BadInput
from .credentials import NO_CREDENTIALS, NO_TENANT, Credentials

# All that commands find in their environment beside the image's own: nothing of the worker's, and nothing secret.
SANDBOX_ENV: Mapping[str, str] = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "PYTHONDONTWRITEBYTECODE": "1",  # byte code in the workspace would stand in patches of careless projects
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What to open, and the request's diff that goes onto its base first (empty: none). `use` keeps this machine's
    repository and files there for as long as the task works on them; who has them closes it."""

    spec: SandboxSpec
    request_diff: bytes = b""
    use: Use = field(default_factory=Use)


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Prepares workspaces on this machine. `allowed_roots` are the folders of the host that requests may name."""

    driver: SandboxDriver
    blobs: Blobs
    cache_dir: Path
    image: str
    allowed_roots: tuple[Path, ...] = ()
    protocols: tuple[str, ...] = ("https", "ssh")
    setup_hosts: tuple[str, ...] | None = None  # None: those of this host's package index
    setup_limits: SetupLimits = field(default_factory=SetupLimits)
    credentials: Credentials = NO_CREDENTIALS
    max_repository_bytes: int = MAX_REPOSITORY_BYTES
    private_addresses: frozenset[str] = frozenset()  # of the operator's own network, for tasks with a grant
    private_addresses_tenants: tuple[str, ...] = (NO_TENANT,)

    async def prepare(
        self,
        workspace: Workspace | None,
        *,
        read_only: bool,
        limits: Limits,
        labels: Mapping[str, str],
        scope: Scope = (),
        tell: Tell = tell_nobody,
    ) -> Prepared:
        """`BadInput` for what a caller may not ask for; errors of `repo` and `sandbox` for what fails."""
        empty = SandboxSpec(self.image, read_only=read_only, limits=limits, labels=labels, env=SANDBOX_ENV)
        if (hosts := hosts_of(scope)) | credentials_of(scope):
            is_lent = bool({acting_tenant(), "*"} & set(self.private_addresses_tenants))
            lent = self.private_addresses if is_lent else frozenset[str]()
            outlet = Outlet(self.credentials.of(scope), lent, tell, acting_tenant())
            empty = replace(empty, egress=hosts, outlet=outlet)
        if workspace is None:
            return Prepared(empty)
        use = Use(acting_tenant())
        try:
            mirror, commit = await self.source(workspace, use)
            folder = await checkout(mirror, commit, self.cache_dir, owner=(AGENT_UID, AGENT_GID), use=use)
            index = None if self.setup_hosts is None else frozenset(self.setup_hosts)
            tenant, bounds = acting_tenant(), self.setup_limits
            setup = Setup(self.image, folder, commit, mirror.key, workspace.setup, index, tell, tenant, bounds)
            image = await self.driver.prepare_image(setup)
            request_diff = await self.blobs.get(workspace.changes) if workspace.changes else b""
        except BaseException:
            use.close()
            raise
        spec = replace(empty, image=image, checkout=folder, git_dir=mirror.git_dir, base=commit)
        return Prepared(spec, request_diff, use)

    async def source(self, workspace: Workspace, use: Use) -> tuple[Mirror, str]:
        """The repository on this machine, which stays for as long as `use` does, and the commit that its work starts
        from."""
        mirror = await self._mirror(workspace, use)
        return mirror, await mirror.resolve(workspace.base)

    async def _mirror(self, workspace: Workspace, use: Use) -> Mirror:
        match workspace:
            case Workspace(url=str(url), bundle=None, path=None):
                return await self._fetched(url, workspace, use)
            case Workspace(credentials=str(name)) if name:
                raise BadInput("credentials are for a repository with a url", hint="name none, or its url")
            case Workspace(url=None, bundle=str(ref), path=None):
                # who names a commit alone, and a bundle of its own, must not get another tenant's repository
                with Use(use.tenant) as reading:
                    file, shared_by = await self._bundle_file(ref, reading), [ref]
                    return await self._unbundled(file, workspace, shared_by, use)
            case Workspace(url=None, bundle=None, path=str(path)):
                with Use(use.tenant) as reading:
                    file, place = await self._bundled(Path(path), workspace.base, reading)
                    return await self._unbundled(file, workspace, ["path", place], use)
            case _:
                raise BadInput("a workspace needs exactly one of url, bundle and path")

    async def _unbundled(self, file: Path, workspace: Workspace, shared_by: Sequence[str], use: Use) -> Mirror:
        return await mirror_of(self.cache_dir, bundle=file, commit=workspace.base, shared_by=shared_by, use=use)

    async def _fetched(self, url: str, workspace: Workspace, use: Use) -> Mirror:
        """What came by a credential, or from this network, lies in a mirror of its own: without it nobody finds it."""
        by, protocols = workspace.credentials, self.protocols
        shared_by: Sequence[str] = ()
        env = self.credentials.for_fetch(by, url)
        if by:
            shared_by = ["credential", by]
        elif workspace.public:
            env, protocols, shared_by = await pinned_to_public(url, acting_tenant()), ("https",), ["public"]
        commit = workspace.base
        return await mirror_of(
            self.cache_dir,
            url=url,
            commit=commit,
            shared_by=shared_by,
            protocols=protocols,
            env=env,
            max_bytes=self.max_repository_bytes,
            use=use,
        )

    async def _bundle_file(self, ref: str, use: Use) -> Path:
        """A bundle travels once to each machine for each tenant, however many of its tasks start from it: one who names
        it and has not stored it must be told so, although it lies here for another."""
        target = self._bundles() / f"{ref.removeprefix('sha256:')}.{digest_of(use.tenant)[:16]}.bundle"
        if not use.take(target):
            content = await self.blobs.get(ref)
            async with self._making(target, use, Weight(len(content))) as is_missing:
                if is_missing:
                    await asyncio.to_thread(_write_whole, target, content)
        return target

    async def _bundled(self, path: Path, commit: str, use: Use) -> tuple[Path, str]:
        """A repository of this host, by way of a bundle, and what both are kept under: nothing of its configuration is
        ever used. The beginning of a commit's id may be another commit's in another repository."""
        real = await asyncio.to_thread(path.resolve)
        if not any(real.is_relative_to(root.resolve()) for root in self.allowed_roots):
            raise BadInput(
                f"the path {str(path)!r} is not under a folder that this worker may read",
                hint="ask the operator to add it to MUSTER_ALLOWED_ROOTS, or send a bundle",
            )
        place = digest_of(str(real), commit)
        target = self._bundles() / f"{place}.bundle"
        if not use.take(target):
            async with self._making(target, use, NOTHING) as is_missing:
                if is_missing:
                    await bundle(real, commit, target)
        return target, place

    @asynccontextmanager
    async def _making(self, target: Path, use: Use, coming: Weight) -> AsyncGenerator[bool]:
        """One task makes it, if it is not there by then; afterwards it is."""
        async with file_lock(lock_of(target)):
            if use.take(target):
                yield False
                return
            async with room_for(target, self.cache_dir, use, coming):
                yield True
            use.take(target)

    def _bundles(self) -> Path:
        return private_folder(self.cache_dir / "bundles")


def _write_whole(target: Path, content: bytes) -> None:
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")  # many tasks of one process may be at it
    part.write_bytes(content)
    part.replace(target)
