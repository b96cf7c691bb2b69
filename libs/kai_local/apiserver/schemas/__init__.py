"""What objects are made of: types, their values in JSON, CEL and protobuf, and what does not fit them."""
