"""Whole models of timm, in the smallest sizes that it has, of small images."""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from libraries.case import with_torchvision

with_torchvision()
timm = importlib.import_module("timm")  # after that

# Their images are 64 x 64 where they take that size.
ANY_SIZE = """
    test_resnet test_efficientnet test_byobnet test_convnext test_mambaout test_nfnet resnet18
    resnext50_32x4d seresnet18 skresnet18 resnest14d mobilenetv2_035 mobilenetv3_small_050
    efficientnet_lite0 densenet121 dla46_c regnetx_002 regnety_002 ghostnet_050 lcnet_035
    tinynet_e mnasnet_small fbnetv3_b hardcorenas_a repvgg_a0 vgg11 convnext_atto
    convnextv2_atto poolformer_s12 edgenext_xx_small mobilevit_xxs mobilevitv2_050
    hrnet_w18_small selecsls42b xception41 gernet_s cspresnet50 darknet17 ese_vovnet19b_dw
    fastvit_t8 repghostnet_050 inception_next_atto starnet_s1 repvit_m0_9 mobileone_s0
    mobilenetv4_conv_small_050 rexnet_100 dpn48b hgnetv2_b0 tresnet_m
""".split()
OF_SIZE = """
    test_vit vit_tiny_patch16_224 deit_tiny_distilled_patch16_224 swin_tiny_patch4_window7_224
    mixer_s32_224 gmlp_ti16_224 resmlp_12_224 cait_xxs24_224 xcit_nano_12_p16_224 convit_tiny
    beit_base_patch16_224 twins_pcpvt_small pit_ti_224 maxvit_rmlp_pico_rw_256 sequencer2d_s
    volo_d1_224 eva02_tiny_patch14_224
""".split()
FIXED = """
    levit_128s coat_lite_tiny crossvit_tiny_240 visformer_tiny efficientformer_l1
    tnt_s_patch16_224
""".split()


def model(name: str, size: int, **options: Any) -> Callable[[], Any]:
    def made() -> Any:
        net = timm.create_model(name, num_classes=4, **options)
        return net, lambda batch: (torch.randn(batch, 3, size, size),)

    return made


MODELS = {
    **{name: model(name, 64) for name in ANY_SIZE},
    **{name: model(name, 64, img_size=64) for name in OF_SIZE},
    **{name: model(name, 224) for name in FIXED if "240" not in name},
    "crossvit_tiny_240": model("crossvit_tiny_240", 240),
}
