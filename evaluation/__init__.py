"""What predictions are worth: from the model's outputs to a task's scores."""
