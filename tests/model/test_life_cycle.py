"""The whole life cycle against its rules: operations in any order, by several workers, through crashes and clocks.

``BANDOG_HYPOTHESIS_PROFILE=long`` looks for hours; a failure prints the steps that lead to it.
"""

import os

import pytest
from hypothesis import settings
from managing import Managing
from producing import Producing
from running import Running

LONG = os.environ.get("BANDOG_HYPOTHESIS_PROFILE") == "long"


class LifeCycleMachine(Producing, Managing, Running):
    """All rules together."""


TestLifeCycle = LifeCycleMachine.TestCase
# One example is a run of so many steps, each of one or two milliseconds: half a minute in the quick profile.
TestLifeCycle.settings = settings(max_examples=settings().max_examples * 5, stateful_step_count=40, print_blob=True)
# Finding the shortest way to a failure takes longer than any other test here.
TestLifeCycle.pytestmark = [pytest.mark.timeout(0 if LONG else 900)]
