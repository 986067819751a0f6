"""`python3 -m baechi`: the program `baechi`."""
import baechi_data

if __name__ == "__main__":
    baechi_data.main()
