"""Fixtures that several files share."""

from contextlib import contextmanager

import pytest
from hypothesis import settings

from tests.support.spark_cluster import loopback

settings.register_profile("counterrank", deadline=None)  # no test asserts a time
settings.load_profile("counterrank")
collect_ignore = ["support/own_estimator.py"]  # importing it, as the search for doctests does, registers an estimator


@pytest.fixture(scope="module")
def environment():
    """Spark on loopback only; the value marks all processes started meanwhile, and none of them stays behind."""
    with loopback() as mark:
        yield mark


@pytest.fixture(scope="module")
def spark(environment, tmp_path_factory):
    """A session of Spark on this machine."""
    from counterrank.clicks.logs import spark_engine
    from counterrank.common.spark import spark_session

    pytest.importorskip("pyspark")
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "log", spark_engine._SETTINGS) as session:
        yield session


@pytest.fixture
def local_spark(spark, monkeypatch):
    """Whoever reads a log on Spark does it in sessions of one Java process, instead of a new one for each log."""
    from counterrank.clicks.logs import spark_engine

    @contextmanager
    def another(master, log, settings):
        yield spark.newSession()

    monkeypatch.setattr(spark_engine, "spark_session", another)
