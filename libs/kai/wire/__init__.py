"""The conversation between processes: channels, servers, codecs, clients of the scheduler."""
