"""Who is asked before an object is written: the server itself, policies, webhooks."""
