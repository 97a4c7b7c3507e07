"""Solutions to the exercises of the notebooks, a file for each part. Try yourself first: the checks help."""
