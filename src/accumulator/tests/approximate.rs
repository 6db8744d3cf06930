//! Error bounds of samples and sketches.
