"""Where a fresh process finds a job: by a name to import, or in the job files it came from."""

import msgspec


class ModuleMember(msgspec.Struct, frozen=True):
    """An object in a module: `tasks`, `app`."""

    module: str
    name: str


class FileText(msgspec.Struct, frozen=True):
    """One job file as it was read: its path, its place under the folder, its bytes."""

    file: bytes  # as the system has it: it need not be text
    parts: tuple[str, ...]
    data: bytes


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of job files at one moment; `digest` stands for all of it, files left out."""

    folder: bytes
    digest: str
    files: tuple[FileText, ...] = ()


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where to find a job: itself at a place, or in its application once modules are imported,
    or in a folder of job files. ``first`` are modules to be imported before any of that."""

    job: str
    first: tuple[str, ...] = ()
    place: ModuleMember | None = None
    app: ModuleMember | None = None
    imports: tuple[str, ...] = ()
    folder: Folder | None = None
