"""A run that waits until somebody decides: it is resumed on Prefect's pages, with a form."""

from typing import Any, Final, Literal, TypeAlias

from prefect import get_client, pause_flow_run, runtime, suspend_flow_run
from prefect.client.schemas import FlowRun
from prefect.input import RunInput
from pydantic import Field

# How long a run without a deployment waits; one with a deployment waits for ever, without a process.
WAIT_S: Final = 7 * 24 * 60 * 60
POLL_S = 5
Choice: TypeAlias = Literal["apply", "drop"]


class Decision(RunInput):
    """What is to become of what a run has staged."""

    decision: Choice = Field(
        description="Apply makes the change, in one commit. Drop throws away what is staged."
    )


class Review(RunInput):
    """Whether the bills of a month are right."""

    decision: Literal["approve", "reject"] = Field(
        description="Approve approves the bills, and the closing goes on. Reject ends it."
    )
    reason: str = Field("", description="Why they are rejected.")


def wait_for_decision(question: str) -> Choice:
    """Wait until somebody resumes the run and says what to do.

    The run of a deployment ends its process and begins anew when it is resumed; see `is_resumed`.

    Args:
        question: What the decision is about, in Markdown; it stands above the form.
    """
    made: Decision = _wait_for(Decision, question)
    return made.decision


def wait_for_review(question: str) -> Review:
    """Wait until somebody resumes the run and says whether the bills are right.

    Args:
        question: What the bills come to, in Markdown; it stands above the form.
    """
    made: Review = _wait_for(Review, question)
    return made


def _wait_for(form: type[RunInput], question: str) -> Any:
    asked, key = form.with_initial_data(description=question), _key(_this_run())
    if runtime.deployment.id:
        return suspend_flow_run(wait_for_input=asked, key=key)
    return pause_flow_run(wait_for_input=asked, key=key, timeout=WAIT_S, poll_interval=POLL_S)


def is_resumed() -> bool:
    """Whether the run was suspended, and has begun anew because somebody decided.

    A run that failed afterwards, and is retried, asks again.
    """
    run = _this_run()
    return _key(run) in (run.empirical_policy.pause_keys or ())


def _this_run() -> FlowRun:
    # As the server has it: the run's context is older.
    with get_client(sync_client=True) as client:
        return client.read_flow_run(runtime.flow_run.id)


def _key(run: FlowRun) -> str:
    # A retry counts as a run of its own, going on after a pause does not.
    return f"decision-{run.run_count}"
