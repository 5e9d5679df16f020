"""What a replayed call does, written once: steps that an interpreter runs and that one writer spells out."""
