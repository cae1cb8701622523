"""What every test has: a profile of Hypothesis, and the stores and targets to run on."""

import os

import hypothesis

pytest_plugins = ["fix_disk", "fix_postgres", "fix_store", "fix_target"]

# "long" is for a run over night: BANDOG_HYPOTHESIS_PROFILE=long.
hypothesis.settings.register_profile("quick", max_examples=60, deadline=None)
hypothesis.settings.register_profile("long", max_examples=2_000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("BANDOG_HYPOTHESIS_PROFILE", "quick"))
