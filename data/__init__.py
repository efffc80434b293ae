"""From files to token ids: tokenizers, record schemas, readers and builders."""

import os

# Every program imports this package first. What TensorFlow's C++ says when it
# starts (that there is no GPU, and so on) would drown what we say.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
