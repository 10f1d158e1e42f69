"""Members on disk: one safetensors file a round, safe once its name is there.

A folder holds `run.json` (the format's number and the run's header), a file `round-INDEX-CHAIN.safetensors` for each
finished round of the block that starts at CHAIN, and the state of each block after its last round. A
round is written after its state and the older state is removed after that, so that at every moment
the newest round has its state.
"""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from anchorwalk import checks, files, tree
from anchorwalk.store.base import Header, Round, check_same, info_at, member_at
from anchorwalk.types import ChainState, Member, MemberInfo

FORMAT = 1


class DiskStore:
    """Keeps a run in a folder; `sample(..., store="runs/x")` makes one.

    Args:
        folder: Made where it is missing.

    Raises:
        InvalidInput: A folder with other files and no run in it.

    Example:
        >>> import tempfile
        >>> from anchorwalk.store import DiskStore
        >>> DiskStore(tempfile.mkdtemp()).infos()
        []
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            checks.reject("store", f"the file {str(self.folder)!r}", "a folder", "Choose another name.")
        foreign = self.folder.is_dir() and not self._manifest.exists() and any(self.folder.iterdir())
        if foreign:
            given = f"{str(self.folder)!r} with other files in it"
            checks.reject("store", given, "a run or an empty folder", "Choose another folder.")
        self._like: Any = None
        self._infos: dict[tuple[int, int], MemberInfo] = {}
        self._places: dict[tuple[int, int], tuple[Path, int]] = {}

    @property
    def _manifest(self) -> Path:
        return self.folder / "run.json"

    def header(self) -> Header:
        """The header of the run that is here; empty where there is none.

        Raises:
            InvalidInput: Where a run of another format is here.
        """
        if not self._manifest.exists():
            return {}
        manifest = json.loads(self._manifest.read_text())
        if manifest.get("format") != FORMAT:
            given = f"a run of format {manifest.get('format')} in {self.folder}"
            checks.reject("store", given, f"format {FORMAT}", "Use the version of anchorwalk that wrote it.")
        header: Header = manifest["header"]
        return header

    def begin(self, header: Header, like: ChainState) -> None:
        """Start a run, or go on with the one that is here.

        Raises:
            InvalidInput: Where a run with another header is here.
        """
        self._like = like
        stored = self.header()
        check_same(stored, header, f"the folder {self.folder}")
        merged = {**stored, **header}
        if merged != stored:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                checks.reject(
                    "store", f"{str(self.folder)!r} ({error.strerror})", "a folder to write to", "Choose another."
                )
            files.write(self._manifest, json.dumps({"format": FORMAT, "header": merged}, indent=2).encode())
        for path in sorted(self.folder.glob("round-*.safetensors")):
            self._read_infos(path)
        for chain, index in self._places:
            if index and (chain, index - 1) not in self._places:
                given = f"{str(self.folder)!r} without member {index - 1} of chain {chain}, but with the next"
                checks.reject("store", given, "every round", "Bring the missing file back, or start in another folder.")

    def commit(self, round_: Round) -> None:
        """Take a finished round; when this returns, it is on disk."""
        name = f"{round_.index:06d}-{round_.chains[0]:06d}.safetensors"
        state = self.folder / f"state-{name}"
        about = {"chains": json.dumps(round_.chains), "index": str(round_.index)}
        files.write(state, save(_named(round_.states), about))
        path = self.folder / f"round-{name}"
        files.write(path, save(_named(round_.members), about))
        self._remember(path, round_.chains, round_.index, round_.members.info)
        for old in self.folder.glob("state-*.safetensors"):
            if old != state and set(_chains(old)) <= set(round_.chains):
                old.unlink()

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        return [self._infos[place] for place in sorted(self._infos)]

    def member(self, chain: int, index: int) -> Member:
        """One member, read from its file."""
        path, lane = self._places[chain, index]
        like = Member(self._like.params, 0, MemberInfo(*range(len(MemberInfo._fields))))
        return member_at(_rebuild(load_file(path), like), lane)

    def state(self, chain: int) -> ChainState:
        """The state of a chain after its last finished member."""
        index = max(i for c, i in self._places if c == chain)
        for path in self.folder.glob(f"state-{index:06d}-*.safetensors"):
            chains = _chains(path)
            if chain in chains:
                state: ChainState = tree.lane(_rebuild(load_file(path), self._like), chains.index(chain))
                return state
        given = f"{str(self.folder)!r} without the state of chain {chain} after member {index}"
        remedy = "Is another process writing to this folder? Else bring the file back, or start in another folder."
        return checks.reject("store", given, "a whole run", remedy)

    def _read_infos(self, path: Path) -> None:
        try:
            with safe_open(path, framework="numpy") as file:
                chains, index = json.loads(file.metadata()["chains"]), int(file.metadata()["index"])
                infos = MemberInfo(*(file.get_tensor(f"info/{name}") for name in MemberInfo._fields))
        except SafetensorError as error:
            remedy = "Bring the file back from a copy, or remove it and all later rounds of its chains."
            checks.reject("store", f"the damaged file {str(path)!r} ({error})", "a whole file", remedy)
        self._remember(path, chains, index, infos)

    def _remember(self, path: Path, chains: Sequence[int], index: int, infos: MemberInfo) -> None:
        for lane, chain in enumerate(chains):
            self._places[chain, index] = (path, lane)
            self._infos[chain, index] = info_at(infos, lane)


def _named(value: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.ascontiguousarray(leaf) for name, leaf in tree.named_leaves(value)}


def _rebuild(tensors: dict[str, Any], like: Any) -> Any:
    return jax.tree_util.tree_map_with_path(lambda path, _: tensors[tree.name(path)], like)


def _chains(path: Path) -> list[int]:
    with safe_open(path, framework="numpy") as file:
        chains: list[int] = json.loads(file.metadata()["chains"])
    return chains
