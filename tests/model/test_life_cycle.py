"""The whole life cycle against its rules: operations in any order, by several workers, through crashes and clocks.

``BANDOG_HYPOTHESIS_PROFILE=long`` looks for hours; a failure prints the steps that lead to it.
"""

import os

import pytest
from fix_postgres import Server
from hypothesis import settings
from managing import Managing
from on_files import OnFiles
from on_servers import OnServers, OnServersAsync
from producing import Producing
from running import Running

LONG = os.environ.get("BANDOG_HYPOTHESIS_PROFILE") == "long"
# Finding the shortest way to a failure takes longer than any other test here.
LIMIT = [pytest.mark.timeout(0 if LONG else 900)]


def of_examples(share: float) -> settings:
    """One example is a run of so many steps."""
    return settings(max_examples=int(settings().max_examples * share), stateful_step_count=40, print_blob=True)


class LifeCycleMachine(Producing, Managing, OnFiles):
    """All rules together."""


class LifeCycleOnServers(OnServers, Managing, Running):
    """All that are not about files."""


class LifeCycleOnServersAsync(OnServersAsync, Managing, Running):
    """The same, on the other face."""


TestLifeCycle = LifeCycleMachine.TestCase
# Each step takes one or two milliseconds: half a minute in the quick profile.
TestLifeCycle.settings = of_examples(3)
TestLifeCycle.pytestmark = LIMIT


@pytest.fixture
def server(postgres_server: Server) -> None:
    """For machines, which are made without arguments."""
    OnServers.server = postgres_server


ON_A_SERVER = [*LIMIT, pytest.mark.usefixtures("server")]

TestLifeCycleOnServers = LifeCycleOnServers.TestCase
# Each step takes a dozen round trips: half a minute.
TestLifeCycleOnServers.settings = of_examples(0.35)
TestLifeCycleOnServers.pytestmark = ON_A_SERVER

TestLifeCycleOnServersAsync = LifeCycleOnServersAsync.TestCase
TestLifeCycleOnServersAsync.settings = of_examples(0.15)
TestLifeCycleOnServersAsync.pytestmark = ON_A_SERVER
