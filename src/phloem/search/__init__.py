"""Where to look: bootstrap trees and the maximum-likelihood tree, by our own search or by external programs."""
