import pytest

pytest.register_assert_rewrite("libs.tests.engine.builders")
