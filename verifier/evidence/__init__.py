"""What the gates look at: machine code, launches, clocks."""
