"""Who somebody is and what he may do: certificates, tokens, roles."""
