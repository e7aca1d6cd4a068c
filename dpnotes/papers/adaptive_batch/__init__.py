"""Liu and Talwar (2024): adaptive batch sizes for finding second-order stationary points privately."""
