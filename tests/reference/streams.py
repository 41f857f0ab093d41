"""The streams of random numbers that kernels draw from, in whole numbers of Python: SplitMix64."""

WORD = 2**64


def mixed(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


class Stream:
    """Stream number `index` of those that belong to `key`."""

    def __init__(self, key: int, index: int):
        self.state = mixed(
            mixed((key + 0x9E3779B97F4A7C15) % WORD) ^ ((index * 0x94D049BB133111EB + 0xBF58476D1CE4E5B9) % WORD)
        )

    def below(self, n: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) % WORD
        return min(int(((mixed(self.state) >> 11) + 0.5) * 2.0**-53 * n), n - 1)
