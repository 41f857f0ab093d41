"""Kernels where nothing can be cached."""

from counterrank.common import jit


def test_without_a_place_for_the_cache_kernels_are_compiled_all_the_same(monkeypatch):
    real, asked = jit.njit, []

    def no_place(*arguments, cache=False, **options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*arguments, **options)

    monkeypatch.setattr(jit, "njit", no_place)
    assert jit.kernel(lambda x: 2 * x)(3) == 6
    assert asked == [True, False]
