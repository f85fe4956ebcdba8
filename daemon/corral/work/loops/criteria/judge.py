"""The criterion ``judge``: a model votes whether the work meets a rubric; not the model that did it, unless allowed."""

from __future__ import annotations

import json
import sys
from typing import Any

from corral.runners.messages.usage import LATEST, plain_name
from corral.work.loops.criteria.place import Evaluation, Place, last_lines
from corral.work.loops.spec import JudgeCriterion, Verdict

MODELS = (LATEST["opus"], LATEST["sonnet"])
"""The judges, where neither the criterion nor the settings name one: the first that did not do the work."""
SILENCE_S = 60.0
# Isolated: neither the worktree nor a variable may put another module in place of its own.
_START = "import sys; sys.path += sys.argv[1:]; from corral.runners.messages.judge import main; main()"


def evaluate(criterion: JudgeCriterion, place: Place) -> Evaluation:
    """Let the model vote on the work."""
    model, refusal = _model(criterion, place)
    if refusal:
        return Evaluation("judge", Verdict.INCONCLUSIVE, None, refusal)
    access = place.access()
    order = {
        "model": model,
        "rubric": criterion.rubric,
        "work": place.work(),
        "votes": criterion.votes,
        "silence_s": SILENCE_S,
        "api_key": access.api_key,
        "base_url": access.base_url,
    }
    argv = [sys.executable, "-I", "-c", _START, *access.folders]
    ran = place.run(argv, criterion.timeout_s, stdin=json.dumps(order).encode())
    answer = _answer(ran.output) if not ran.reason and ran.exit_code == 0 else None
    if answer is None:
        text = ran.reason or "The judge ended without an answer."
        return Evaluation("judge", Verdict.INCONCLUSIVE, None, f"{text}\n{last_lines(ran.output, 3)}".strip())
    return _counted(criterion, model, answer)


def _model(criterion: JudgeCriterion, place: Place) -> tuple[str, str]:
    """The model that judges, and the reason if it must not."""
    workers = {plain_name(model) for model in place.worker_models}
    named = criterion.model or place.judge_model
    able = MODELS if named is None else (LATEST.get(named, named),)
    judge = next((model for model in able if criterion.same_model or plain_name(model) not in workers), None)
    if judge is not None:
        return judge, ""
    reason = f"{' and '.join(able)} did the work, and no model judges its own. "
    return able[0], f"{reason}Name another `model`, or set `same_model: true`."


def _answer(output: str) -> dict[str, Any] | None:
    """The answer, which is the last line of the output; None: there is no valid one."""
    try:
        answer = json.loads((output.splitlines() or [""])[-1])
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and {"votes", "errors", "usage"} <= answer.keys() else None


def _counted(criterion: JudgeCriterion, model: str, answer: dict[str, Any]) -> Evaluation:
    votes, usage = answer["votes"], answer["usage"]
    meeting = sum(bool(vote["meets"]) for vote in votes)
    against = len(votes) - meeting
    reasons = "\n".join(f"- {'meets' if vote['meets'] else 'does not meet'} it: {vote['reasons']}" for vote in votes)
    faults = "\n".join(f"- no vote: {text}" for text in answer["errors"])
    verdict = Verdict.INCONCLUSIVE
    if max(meeting, against) > criterion.votes / 2:
        verdict = Verdict.CONVERGED if meeting > against else Verdict.NOT_CONVERGED
    score = sum(vote["score"] for vote in votes) / len(votes) if votes else None
    value = {"model": model, "meet": meeting, "do_not": against, "asked": criterion.votes, "score": score}
    head = f"{model}: {meeting} of {criterion.votes} votes say that it meets the rubric."
    return Evaluation("judge", verdict, value, "\n".join(filter(None, (head, reasons, faults))), score, usage)
