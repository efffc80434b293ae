"""From files to token ids: tokenizers, record schemas, readers and builders."""
