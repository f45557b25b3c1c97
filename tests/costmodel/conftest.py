from tests.support.isolation import no_ray_and_no_sleep

__all__ = ["no_ray_and_no_sleep"]
