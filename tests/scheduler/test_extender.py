"""Path that charts of earlier versions use for the bind extender."""

import subprocess
import sys


def test_it_is_the_extender_still() -> None:
    before, now = (
        subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True).stdout
        for module in ("agent.scheduler.extender", "agent.extender")
    )
    assert "--extender-address" in before
    assert before.split("options:")[-1] == now.split("options:")[-1]
