"""What people are asked by runs, and their answers: verbs of an application, as flows."""

import builtins
from collections.abc import Sequence

from windlass.acting import actor, asker
from windlass.client.filters import check_id
from windlass.client.scope import Verbs
from windlass.domain.approval import (
    AnswerOutcome,
    AnswerReply,
    Approval,
    OpenApproval,
    check_by,
    check_comment,
    hash_of,
    is_same,
)
from windlass.domain.job import check_text
from windlass.domain.run import RunRef
from windlass.domain.step import Step, StepKind
from windlass.errors import ApprovalClosed, ApprovalNotFound, BadOption, BadToken
from windlass.store.flow import Flow, Hint

_PAGE = 1000
_LONGEST = 1_600  # of a path


class ApprovalVerbs(Verbs):
    """List what is asked, approve, reject."""

    def approvals(self) -> Flow[Sequence[OpenApproval]]:
        """List what runs ask people and has no answer yet, oldest run first."""
        found, after = builtins.list[OpenApproval](), None
        operations = self._scope.store.operations
        while True:
            page = yield operations.list_approvals(self._scope.tenant, after, _PAGE)
            found += page
            if len(page) < _PAGE:
                return found
            after = (page[-1].run, page[-1].name)

    def approve(
        self,
        run: str,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Flow[Approval]:
        """Say yes to what a run asks by `ctx.approval`; returns the answer that counts.

        `name` may be left out if the run asks one question. The first answer counts: the same one
        again is returned, another raises ApprovalClosed, as does one that comes too late. With a
        `token`, as `notify` was given it, only the question of that token is answered. Raises
        ApprovalNotFound, BadToken, and IllegalTransition for a run that has ended.
        """
        return (yield from self._answer(run, name, True, by, comment, token))

    def reject(
        self,
        run: str,
        name: str | None = None,
        *,
        by: str | None = None,
        comment: str | None = None,
        token: str | None = None,
    ) -> Flow[Approval]:
        """Say no to what a run asks by `ctx.approval`; see `approve`."""
        return (yield from self._answer(run, name, False, by, comment, token))

    def _answer(
        self,
        run: str,
        name: str | None,
        approved: bool,
        by: str | None,
        comment: str | None,
        token: str | None,
    ) -> Flow[Approval]:
        who, said = check_by(by) or asker(), check_comment(comment)
        ref = RunRef(self._scope.tenant, check_id(run))
        hashed = None if token is None else hash_of(check_text("token", token, 1_000))
        path = check_text("name", name, _LONGEST) if name is not None else None
        if path is None:
            path = yield from self._only_question(ref)
        reply: AnswerReply = yield self._scope.store.operations.answer_approval(
            ref, path, approved, who, said, hashed, actor=actor()
        )
        match reply:
            case AnswerReply(outcome=AnswerOutcome.ANSWERED, answer=Approval() as answer):
                yield Hint()  # the run that waited for it is ready
                return answer
            case AnswerReply(outcome=AnswerOutcome.KNOWN, answer=Approval() as answer):
                if is_same(answer, approved, who, said):
                    return answer
                how = "approved" if answer.approved else "rejected"
                raise ApprovalClosed(ref.id, path, how, answer.by)
            case AnswerReply(outcome=AnswerOutcome.EXPIRED):
                raise ApprovalClosed(ref.id, path, "expired")
            case AnswerReply(outcome=AnswerOutcome.REFUSED):
                raise BadToken(ref.id, path)
            case _:
                raise ApprovalNotFound(ref.id, path)

    def _only_question(self, ref: RunRef) -> Flow[str]:
        """The one question of a run that has no answer, or else the last one that it asked."""
        asked, after = builtins.list[Step](), None
        while True:
            page = yield self._scope.store.operations.list_steps(ref.tenant, ref.id, after, _PAGE)
            asked += [step for step in page if step.kind is StepKind.APPROVAL]
            if len(page) < _PAGE:
                break
            after = page[-1].path
        waiting = sorted(step.path for step in asked if not step.state.ended)
        if len(waiting) > 1:
            raise BadOption("name", f"run {ref.id} asks for several: {', '.join(waiting)}")
        if waiting or not asked:
            return waiting[0] if waiting else "approval"
        return max(asked, key=lambda step: step.seq or 0).path
