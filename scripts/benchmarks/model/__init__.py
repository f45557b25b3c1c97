"""The cost model and calibration against measurements, on synthetic and real traces."""
