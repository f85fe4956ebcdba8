"""The workers: started, followed, ended, and what they made brought in."""
