import torch


def layer_norm(x, eps=1e-5, out=None):
    result = torch.nn.functional.layer_norm(x.float(), (x.shape[1],), eps=eps).to(x.dtype)
    return result if out is None else out.copy_(result)
