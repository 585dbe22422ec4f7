"""The two faces of ApprovalVerbs: generated from client/approvals.py by `make faces`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.approvals import ApprovalVerbs
    from windlass.domain.approval import (
        Approval,
        OpenApproval,
    )


class ApprovalFaces:
    """Every verb of ApprovalVerbs, blocking and, with an `a` before it, async."""

    __slots__ = ()

    @property
    @abstractmethod
    def _verbs(self) -> ApprovalVerbs:
        """The flows."""
        ...

    def approvals(self) -> Sequence[OpenApproval]:
        """List what runs ask people and has no answer yet, oldest run first."""
        verbs = self._verbs
        return verbs.perform(verbs.approvals())

    async def aapprovals(self) -> Sequence[OpenApproval]:
        """As `approvals`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.approvals())

    def approve(
        self,
        run: str,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """Say yes to what a run asks by `ctx.approval`; returns the answer that counts.

        `name` may be left out if the run asks one question. The first answer counts: the same one
        again is returned, another raises ApprovalClosed, as does one that comes too late. With a
        `token`, as `notify` was given it, only the question of that token is answered. Raises
        ApprovalNotFound, BadToken, and IllegalTransition for a run that has ended.
        """
        verbs = self._verbs
        return verbs.perform(verbs.approve(run, name, by=by, comment=comment, token=token))

    async def aapprove(
        self,
        run: str,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """As `approve`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.approve(run, name, by=by, comment=comment, token=token))

    def reject(
        self,
        run: str,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """Say no to what a run asks by `ctx.approval`; see `approve`."""
        verbs = self._verbs
        return verbs.perform(verbs.reject(run, name, by=by, comment=comment, token=token))

    async def areject(
        self,
        run: str,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Approval:
        """As `reject`, in async code."""
        verbs = self._verbs
        return await verbs.aperform(verbs.reject(run, name, by=by, comment=comment, token=token))
