"""Tools of a checkout: sandbox, demo, benchmarks, soak, corpus, trace. The wheel and the image contain none of it."""
