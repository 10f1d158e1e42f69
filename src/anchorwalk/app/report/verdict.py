"""What a report opens with: whether its uncertainty can be trusted, why, and what to do."""

from dataclasses import dataclass

from anchorwalk.app.report.elements import Evidence
from anchorwalk.app.report.formatting import count, percent, share_with_range, wilson
from anchorwalk.posterior.diagnose import DIVERGED, Diagnosis
from anchorwalk.posterior.posterior import Posterior

WIDEST = 0.2
"""Width of a 95% range of a share from which on rows are too few to judge by."""
GOOD, OPEN, BAD = "good", "open", "bad"


@dataclass(frozen=True)
class Verdict:
    """An answer in a sentence.

    Attributes:
        kind: "good", "open" or "bad".
        answer: The sentence.
        reasons: What speaks for it, and what it does not say.
        actions: What to do.
    """

    kind: str
    answer: str
    reasons: list[str]
    actions: list[str]


def judge(posterior: Posterior, evidence: Evidence | None, diagnosis: Diagnosis | None, target: str | None) -> Verdict:
    """The verdict on a run.

    Args:
        posterior: The ensemble.
        evidence: How predictions did on rows whose truth is known, or None.
        diagnosis: Whether its chains agree, or None.
        target: What is predicted, where it is known.
    """
    found = _unknown(target) if evidence is None else _measured(evidence)
    doubts = _doubts(posterior, diagnosis)
    kind, answer = found.kind, found.answer
    if doubts and kind == GOOD:
        kind, answer = OPEN, f"With care: {answer.partition(': ')[2]}, but the run itself is in doubt"
    advice = [] if diagnosis is None else [one[0].upper() + one[1:] + "." for one in diagnosis.advice]
    if kind == GOOD and not advice:
        advice = ["Nothing to change. Report again when new rows with their truth have come."]
    return Verdict(kind, f"{answer}.", [*found.reasons, *doubts], [*found.actions, *advice])


def _unknown(target: str | None) -> Verdict:
    name = f"the column “{target}”" if target else "the target"
    reasons = ["Only rows that training has not seen, and whose truth is known, can tell."]
    return Verdict(OPEN, "Not known: no prediction was compared with the truth", reasons, [_with_truth(name)])


def _with_truth(name: str) -> str:
    return f"Report again on a hundred rows or more that training has not seen, with {name}."


def _measured(evidence: Evidence) -> Verdict:
    """The verdict of rows whose truth is known."""
    low, high = wilson(evidence.held, evidence.rows)
    promised = percent(evidence.promised)
    share = share_with_range(evidence.held, evidence.rows)
    if evidence.intervals:
        reasons = [f"Of the {promised} intervals {share} hold the truth."]
        narrow, wide = "these intervals are too narrow", "these intervals are too wide"
        fine = "these intervals hold what they promise"
    else:
        reasons = [f"The predicted class has a probability of {promised} in the mean, and is right in {share}."]
        narrow, wide = "these probabilities are too sure", "these probabilities are not sure enough"
        fine = "these probabilities hold what they promise"
    reasons.append("This is so for rows like these, if training has not seen them.")
    if high < evidence.promised:
        return Verdict(BAD, f"No: {narrow}", reasons, [*_instead(evidence), *_narrower(evidence)])
    if low > evidence.promised and not evidence.whole:
        more = "Train longer, with a larger budget: members far from their optima disagree too much."
        return Verdict(OPEN, f"With care: {wide}", reasons, [*_instead(evidence), more])
    if high - low > WIDEST:
        few = f"Not known: {count(evidence.rows, 'row')} only, too few to tell"
        return Verdict(OPEN, few, reasons, [_with_truth("the target")])
    return Verdict(GOOD, f"Yes, as far as {count(evidence.rows, 'row')} can tell: {fine}", reasons, [])


def _instead(evidence: Evidence) -> list[str]:
    if evidence.instead is None:
        return []
    wanted, promised = f"{100 * evidence.instead:.3g}%", percent(evidence.promised)
    return [f"Until then, ask for {wanted} intervals where you want {promised}: on these rows they hold it."]


def _narrower(evidence: Evidence) -> list[str]:
    found = ["Train on more rows, or with fewer units: a large network on few rows is too sure of what it fitted."]
    found += ["Are these rows of the same kind as those of training? A shift makes any interval too narrow."]
    if evidence.constant_noise:
        found.append("If errors are larger for some rows than for others, let the noise vary: noise = “varying”.")
    return found


def _doubts(posterior: Posterior, diagnosis: Diagnosis | None) -> list[str]:
    """What speaks against a run whatever its scores."""
    doubts = []
    if diagnosis is not None and diagnosis.agree is False:
        doubts.append("The chains do not agree: another run would give other predictions.")
    if len(posterior) == 1:
        doubts.append("A single network cannot tell what it does not know.")
    if posterior.diverged > DIVERGED * len(posterior.infos):
        doubts.append(f"{count(posterior.diverged, 'member')} diverged and are left out, which is a selection.")
    if posterior.failed:
        doubts.append(f"{count(len(posterior.failed), 'chain')} failed and are left out.")
    if not posterior.complete:
        doubts.append("The run was ended before its plan was done.")
    return doubts
