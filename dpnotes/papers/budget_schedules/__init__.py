"""Hong, Wang and Zhou (FAccT 2022): dynamic privacy budgets for gradient descent."""
