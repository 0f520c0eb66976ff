"""A run that waits until somebody decides: it is resumed on Prefect's pages, with a form."""

from typing import Final, Literal, TypeAlias

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


def wait_for_decision(question: str) -> Choice:
    """Wait until somebody resumes the run and says what to do.

    The run of a deployment ends its process and begins anew when it is resumed; see `is_resumed`.

    Args:
        question: What the decision is about, in Markdown; it stands above the form.
    """
    form, key = Decision.with_initial_data(description=question), _key(_this_run())
    if runtime.deployment.id:
        made = suspend_flow_run(wait_for_input=form, key=key)
    else:
        made = pause_flow_run(wait_for_input=form, key=key, timeout=WAIT_S, poll_interval=POLL_S)
    return made.decision


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
