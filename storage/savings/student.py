"""Student's t: how many standard errors hold a value with 95 %. Pure."""

_Z = 1.959963984540054


def student(freedom: int) -> float:
    """The 97.5 % quantile, by its expansion in 1 / freedom: within 0.1 % from five degrees of freedom on."""
    z, v = _Z, 1 / freedom
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term * v**power for power, term in enumerate(terms, 1))
