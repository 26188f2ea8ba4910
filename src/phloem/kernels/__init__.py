"""Compiled loops: arrays in, arrays out. A kernel assumes what its public caller has checked."""
