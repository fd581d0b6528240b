"""Whole numbers of noise: drawn by OpenDP at nodes, and seeded in simulation."""

import numpy as np

# Noise of larger numbers than this would leave int64 no room for sums.
_MOST_DEVIATION = 2.0**52


def check_can_draw(*, where: str) -> None:
    """Raise ImportError where the package that draws noise is not installed."""
    try:
        import opendp  # noqa: F401
    except ImportError:
        raise ImportError(
            f"{where}: noise is drawn by the package opendp, which is not installed. "
            'Install it: pip install "skgems[privacy]".'
        ) from None


def discrete_gaussian(deviations: np.ndarray) -> np.ndarray:
    """Draw whole numbers from the discrete Gaussian, from the system's randomness.

    OpenDP draws exactly, without floating-point numbers (Canonne, Kamath and Steinke,
    2020). It takes about 11 microseconds a number.

    Parameters
    ----------
    deviations : ndarray of shape (n_numbers,)
        Standard deviation of each number, in whole units.

    Returns
    -------
    noise : ndarray of shape (n_numbers,), int64
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=dp.i64))
    noise = np.empty(len(deviations), dtype=np.int64)
    for deviation in np.unique(deviations):
        places = np.flatnonzero(deviations == deviation)
        measurement = dp.m.make_gaussian(*space, scale=float(deviation))
        noise[places] = measurement(np.zeros(len(places), dtype=np.int64).tolist())
    return noise


def simulated_noise(deviations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rounded Gaussian numbers of a seed, for simulations alone, int64."""
    return np.rint(deviations * rng.standard_normal(len(deviations))).astype(np.int64)


def check_size_of_noise(deviations: np.ndarray) -> None:
    """Raise ValueError for noise that is so large that numbers cannot hold it."""
    if deviations.max() > _MOST_DEVIATION:
        raise ValueError(
            "epsilon of Privacy is so small, or rows_of_one so large, that no sum "
            "could be told from noise. Raise epsilon, or lower rows_of_one."
        )
