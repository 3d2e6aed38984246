"""The model: tensors in, tensors out."""
